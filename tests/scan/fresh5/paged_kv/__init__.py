from .engine import Engine, run

__all__ = ["Engine", "run"]
