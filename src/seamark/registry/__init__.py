"""Projects, groups, models and artifacts: containers without a training of their own."""
