from .callbacks import Callback, LossMeter, Spy, Warmup
from .task import build
from .trainer import Trainer

__all__ = ["Callback", "LossMeter", "Spy", "Trainer", "Warmup", "build"]
