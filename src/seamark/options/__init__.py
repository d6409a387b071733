"""Options of a run: names, types and checks, and values from the environment and from files."""
