"""End of a process: observation, and notification of the runs."""
