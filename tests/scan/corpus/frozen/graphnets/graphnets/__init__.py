"""Layers for graphs."""
