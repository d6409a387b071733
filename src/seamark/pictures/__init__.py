"""Curves, images and text for display."""
