from .server import EmbeddingServer

__all__ = ["EmbeddingServer"]
