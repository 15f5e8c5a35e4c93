"""Decode graphs for several batch sizes and spans."""
