"""Opening of a run: one decision, taken before the first byte is written.

`resolve` decides from the options and from what the machine answers; the result is frozen.
"""
