"""The journals that a server was sent: taking them, keeping them, and reading them back.

Their bytes lie in objects, which say themselves what they hold. Tables name the object that holds a
stretch of a journal; they are derived, and can be made again from the objects alone.
"""
