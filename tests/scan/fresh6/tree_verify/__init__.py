from .step import build

__all__ = ["build"]
