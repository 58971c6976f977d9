"""Tune: which bits, scope, coder and interval to use, computed instead of guessed.

Reading order; each feature has a page_X.py on the screen, X.py that computes, X_figure.py that
draws:

    page            the page
    page_recommend  many settings tried out on a training, and one chosen, both in lab/tuner:
                    answer puts it into words, recommend_figure draws
    page_sweep      the controls that choose the training or files to try settings out on
    recorded        a recorded answer, shown until this server has its own
"""
