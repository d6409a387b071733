"""Journals: append-only files of each process, and how they are written, read and laid out."""
