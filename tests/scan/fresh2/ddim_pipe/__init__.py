from .loop import Sampler, build
from .schedule import DDIMSchedule

__all__ = ["DDIMSchedule", "Sampler", "build"]
