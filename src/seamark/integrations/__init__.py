"""Neptune's ``integrations``: names for other integrations, and the one for ``logging``."""
