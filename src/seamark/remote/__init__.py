"""Remotes, which keep runs in other places: sending runs to them, and reading from them.

Journals are sent as they are on disk. Reads return data that the server has folded.
"""
