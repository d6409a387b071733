"""What a training prints: standard output and standard error, recorded as they are written."""
