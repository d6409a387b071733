"""Facts about this process: its rank, its job, whether it lives, forks and signal handlers.

Standard library only.
"""
