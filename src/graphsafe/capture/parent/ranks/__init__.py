"""Runs the several ranks of one target."""
