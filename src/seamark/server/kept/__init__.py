"""Intake, storage and reading of received journals.

Their bytes are in objects that describe their own contents. Tables map ranges of journals to
objects; they are derived data, and can be rebuilt from the objects alone.
"""
