"""Bytes on disk: an append-only file per process, and how it is written, read and laid out."""
