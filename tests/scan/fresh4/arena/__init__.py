"""Many small chase games stepped together on one device."""
from .game import Arena
from .rollout import Rollout, build

__all__ = ["Arena", "Rollout", "build"]
