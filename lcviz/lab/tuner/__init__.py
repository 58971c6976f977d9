"""The tuner: every setting tried out on the states of one training, and one recommended.

Reading order:

    candidates  what can be chosen, and what each choice made of one run
    replay      all settings on the states of one run, without training again
    tuner       the Pareto frontier, and the cheapest setting that meets a target
    sweep       the settings and states that a visitor asks for
"""
