from .blocks import BlockManager
from .engine import Engine
from .model import TinyLM
from .runner import Runner

__all__ = ["BlockManager", "Engine", "Runner", "TinyLM"]
