"""The tuner: tries every setting on the states of one training, and recommends one.

Reading order:

    candidates  the settings, and what each of them reaches in one run
    replay      all settings on the states of one run, without training again
    tuner       the Pareto frontier, and the cheapest setting that meets a target
    sweep       the settings and states of a visitor's request
"""
