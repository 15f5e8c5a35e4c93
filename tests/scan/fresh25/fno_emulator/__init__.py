"""A Fourier neural operator that emulates a periodic shallow-water model."""
from .emulator import Emulator, build

__all__ = ["Emulator", "build"]
