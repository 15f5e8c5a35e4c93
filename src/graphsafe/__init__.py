"""graphsafe: can one step of PyTorch code be captured and replayed as a CUDA graph?"""

from graphsafe.capture.plan.call import Planned, plan
from graphsafe.capture.step import Step

__all__ = ["Planned", "Step", "__version__", "plan"]
__version__ = "0.1.0"
