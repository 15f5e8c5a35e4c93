"""A toy continuous-batching service."""
from .service import Service

__all__ = ["Service"]
