"""Remotes, which store runs in other places: sending runs to them and reading from them.

Journals are sent unchanged. Reads return data that the server has folded.
"""
