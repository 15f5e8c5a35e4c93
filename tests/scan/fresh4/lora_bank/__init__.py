from .adapters import Adapter, AdapterBank
from .layers import LoraLinear
from .model import Tower, build

__all__ = ["Adapter", "AdapterBank", "LoraLinear", "Tower", "build"]
