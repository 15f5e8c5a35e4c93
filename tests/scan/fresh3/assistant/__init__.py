"""A small assistant model, assembled from a registry."""
from .factory import build

__all__ = ["build"]
