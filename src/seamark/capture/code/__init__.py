"""What code a run executes: script or notebook, version, packages, repository."""
