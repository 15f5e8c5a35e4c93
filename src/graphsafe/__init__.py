"""graphsafe: can one step of PyTorch code be captured and replayed as a CUDA graph?"""

from graphsafe.capture.step import Step

__all__ = ["Step", "__version__"]
__version__ = "0.1.0"
