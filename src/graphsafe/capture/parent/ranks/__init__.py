"""Runs a target with several ranks."""
