"""A team's server: it keeps the journals that it is sent, folds them, and answers readers.

It opens no folder of runs and no reference: all that it knows are bytes that were sent to it.
"""
