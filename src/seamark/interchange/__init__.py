"""Import of runs from documents and from other programs, as journals; see ``seamark import``."""
