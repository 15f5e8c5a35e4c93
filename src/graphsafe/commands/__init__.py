"""The commands with many options, one module each, and their common parts."""
