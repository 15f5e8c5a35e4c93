import torch

from .encoder import CausalEncoder
from .graphs import GraphedCall


class StreamingSession:
    def __init__(self, encoder, batch, frames, mels, device):
        self.feats = torch.zeros(batch, frames, mels, device=device)
        self.context = encoder.initial(batch, device)
        self.call = GraphedCall(encoder, (self.feats, self.context), device)
        self.chunks = []

    def accept(self, chunk):
        self.feats = chunk
        logits, carried = self.call.replay()
        self.context = carried
        self.chunks.append(logits)

    def finish(self):
        return torch.cat(self.chunks, 1).argmax(-1)


def transcribe(features, device):
    """features: float [batch, time, mels] on the device."""
    encoder = CausalEncoder().to(device).eval()
    session = StreamingSession(encoder, features.shape[0], 16, features.shape[2], device)
    for chunk in features.split(16, dim=1):
        if chunk.shape[1] == 16:
            session.accept(chunk)
    return session.finish().tolist()
