"""Migrations, one module each; a released migration is never changed."""
