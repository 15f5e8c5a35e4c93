from .draft import Draft
from .loop import Server
from .target import Target

__all__ = ["Draft", "Server", "Target"]
