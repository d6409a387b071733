"""Curves, images and text for people to look at."""
