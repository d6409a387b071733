"""How a process ends: what is observed of it, and what is told."""
