"""Speculative decoding: a small draft proposes, the target checks a window at once."""
from .engine import SpecEngine, SpecSettings

__all__ = ["SpecEngine", "SpecSettings"]
