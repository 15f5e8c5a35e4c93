"""Finds and ends processes, and keeps functions that user code cannot replace; for every process of a capture."""
