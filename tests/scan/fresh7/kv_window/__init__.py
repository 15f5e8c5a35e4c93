from .decode import build

__all__ = ["build"]
