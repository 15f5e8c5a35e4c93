from .engine import Engine, build
from .model import Decoder

__all__ = ["Decoder", "Engine", "build"]
