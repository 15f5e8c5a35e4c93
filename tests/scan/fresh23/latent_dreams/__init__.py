from .agent import build

__all__ = ["build"]
