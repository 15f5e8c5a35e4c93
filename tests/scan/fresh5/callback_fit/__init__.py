from .callbacks import Callback, GradientMean, LossReport
from .trainer import Trainer, fit

__all__ = ["Callback", "GradientMean", "LossReport", "Trainer", "fit"]
