"""Runs that other programs recorded, written as journals of their own; see ``seamark import``."""
