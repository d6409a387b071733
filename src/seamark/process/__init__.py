"""Facts about processes: rank, job, liveness, forks, signals. Uses only the standard library."""
