from .nets import UNet
from .observers import Preview
from .runner import Euler, ImageRunner

__all__ = ["Euler", "ImageRunner", "Preview", "UNet"]
