"""Facts about this process: rank, job, liveness, forks, signals. Standard library only."""
