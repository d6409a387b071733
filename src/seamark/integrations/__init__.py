"""Neptune's ``integrations``: what other integrations use, and the one for ``logging``."""
