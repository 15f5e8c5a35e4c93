"""Tensors as the bytes that they are."""
