"""Migrations, a module for each; a released migration is never changed."""
