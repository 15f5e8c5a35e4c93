from . import layers
from .config import LayerConfig, NetConfig
from .model import Net, build

__all__ = ["LayerConfig", "Net", "NetConfig", "build", "layers"]
