"""Modules whose weights a graph has captured: new weights, new memory, and other modules in their place."""
