"""Replayed ranking tower, second version."""
from .server import RankServer

__all__ = ["RankServer"]
