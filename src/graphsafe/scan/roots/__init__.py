"""Finds where hot code begins, and the files that may lead there."""
