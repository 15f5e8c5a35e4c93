"""The version of graphsafe, and the folder in which it is installed."""

import os

__version__ = "0.2.0"
PACKAGE = os.path.dirname(os.path.abspath(__file__))
