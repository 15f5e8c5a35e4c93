"""Finds and splits functions and statements in source, and writes marks. Both sides of planning use this package."""
