"""A Seamark server as a place elsewhere: what is sent to it, and what is read from it."""
