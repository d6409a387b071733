"""Accounts: users, tokens, roles, visibility, and an audit log."""
