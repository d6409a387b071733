"""Bytes on disk.

One append-only file per writing process, and how it is written, read and laid out.
"""
