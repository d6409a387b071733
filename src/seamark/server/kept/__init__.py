"""Journals that a server receives: intake, storage and reading.

Their bytes lie in objects, which say themselves what they hold. Tables name the object that holds a
stretch of a journal; they are derived, and can be made again from the objects alone.
"""
