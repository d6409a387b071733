"""A team's server, which stores received journals, folds them and answers readers.

It opens no folder of runs and no reference: all that it knows are bytes that were sent to it.
"""
