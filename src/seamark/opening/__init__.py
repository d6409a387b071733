"""Opening of a run: one decision, taken and frozen before the first byte is written."""
