"""Optimizers and what goes with them."""
