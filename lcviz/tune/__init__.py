"""Tune: which bits, scope, coder and interval to use, computed instead of guessed.

Reading order; each feature has a page_X.py on the screen, X.py that computes, X_figure.py that
draws:

    page            the page and its five sections
    page_run        the run on Live that four sections look at, and its newest delta
    page_choices    the controls of A and B
    ab              two choices of the codec on the same checkpoints of one run
    page_recommend  many settings tried out on a training, and one chosen (computed in lab/tuner);
                    recommend_figure draws
    all_settings    one delta with every number of bits, scope and coder
    by_tensor       one delta tensor by tensor
    by_bucket       one delta with its largest buckets alone, or without some
    page_sweep      what settings are tried out on
    recorded        the answer until this server has its own
"""
