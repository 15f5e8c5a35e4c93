"""Finds the user's lines that a child has run."""
