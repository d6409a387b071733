"""A Seamark server as a remote: sending runs to it and reading from it."""
