"""Capture of the code that a run executes: script or notebook, version, packages, repository."""
