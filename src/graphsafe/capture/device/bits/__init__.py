"""Tensors as their bytes."""
