"""Interprets functions over abstract values: one handler for each construct of Python."""
