"""A small dialogue model with rotary positions, assembled from a registry."""
from .factory import build

__all__ = ["build"]
