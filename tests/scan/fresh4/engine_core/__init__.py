from .core import Core
from .runner import Runner, TinyLM
from .tables import Tables

__all__ = ["Core", "Runner", "Tables", "TinyLM"]
