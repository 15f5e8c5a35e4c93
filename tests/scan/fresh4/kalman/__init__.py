from .filter import Belief, Kalman
from .target import build

__all__ = ["Belief", "Kalman", "build"]
