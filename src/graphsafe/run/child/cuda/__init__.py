"""Watches the graphs of a real GPU."""
