"""Many small grid worlds stepped together on one device."""
from .rollout import build
from .spawn import Spawner
from .world import GridWorld

__all__ = ["GridWorld", "Spawner", "build"]
