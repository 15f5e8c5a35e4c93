"""graphsafe: can one step of PyTorch code be captured and replayed as a CUDA graph?"""

__version__ = "0.1.0"
