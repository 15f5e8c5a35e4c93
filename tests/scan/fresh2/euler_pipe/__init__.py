from .pipeline import DenoisePipeline, build
from .scheduler import EulerScheduler

__all__ = ["DenoisePipeline", "EulerScheduler", "build"]
