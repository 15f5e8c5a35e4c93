from .encoder import Encoder, EncoderConfig
from .graphs import GraphStore
from .service import EmbeddingService

__all__ = ["EmbeddingService", "Encoder", "EncoderConfig", "GraphStore"]
