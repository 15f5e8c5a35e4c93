"""Decode graphs for several batch sizes."""
