"""Hot-swappable adapters behind a fixed set of captured graphs."""
from .engine import HotSwapEngine
from .weights import AdapterStore, LoraLinear

__all__ = ["AdapterStore", "HotSwapEngine", "LoraLinear"]
