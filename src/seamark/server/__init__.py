"""Server of a team, which stores received journals, folds them and answers readers.

The server opens no run folders and follows no references; it only has the bytes sent to it.
"""
