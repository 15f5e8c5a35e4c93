from .engine import SpecEngine, generate

__all__ = ["SpecEngine", "generate"]
