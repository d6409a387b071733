"""Folding what is kept into the store, in processes of its own."""
