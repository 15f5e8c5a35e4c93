"""Replayed ranking tower."""
from .server import RankServer

__all__ = ["RankServer"]
