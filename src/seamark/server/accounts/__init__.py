"""Who may do what: users, tokens, roles, visibility, and what was done in their name."""
