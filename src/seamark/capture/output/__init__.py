"""Capture of standard output and standard error, recorded as they are written."""
