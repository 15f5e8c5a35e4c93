from .callbacks import Callback, Checkpoint, EarlyStop, Log
from .trainer import GraphTrainer, Trainer

__all__ = ["Callback", "Checkpoint", "EarlyStop", "GraphTrainer", "Log", "Trainer"]
