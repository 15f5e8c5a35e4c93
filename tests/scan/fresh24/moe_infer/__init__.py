from .model import MoeConfig, MoeStack
from .target import build

__all__ = ["MoeConfig", "MoeStack", "build"]
