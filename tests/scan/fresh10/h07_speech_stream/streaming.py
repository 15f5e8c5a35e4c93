"""Chunked acoustic encoder: fixed chunk on the device, carry kept in place."""
import logging

import torch
import torch.nn as nn

logger = logging.getLogger(__name__)


class ChunkEncoder(nn.Module):
    def __init__(self, mels=40, dim=32, kernel=5, vocab=30, chunk=32):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv1d(mels, dim, kernel)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("carry", torch.zeros(1, mels, kernel - 1))

    def forward(self, chunk):
        padded = torch.cat([self.carry, chunk], dim=-1)
        self.carry.copy_(padded[..., -(self.kernel - 1):])
        feats = torch.relu(self.conv(padded)).transpose(1, 2)
        pooled = feats.mean(dim=1, keepdim=True)
        hidden = torch.tanh(self.mix(feats)) + pooled
        energy = chunk.square().mean()
        return self.head(hidden).log_softmax(-1), energy


class StreamingRecognizer:
    def __init__(self, device, chunk=32, mels=40, max_chunks=64):
        torch.manual_seed(2)
        self.device = device
        self.size = chunk
        self.encoder = ChunkEncoder(mels=mels, chunk=chunk).to(device).eval().requires_grad_(False)
        self.chunk = torch.zeros(1, mels, chunk, device=device)
        self.posteriors = torch.zeros(max_chunks, chunk, 30, device=device)
        self.count = 0
        self._capture()

    def _capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self.encoder(self.chunk)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.log_probs, self.energy = self.encoder(self.chunk)
        self.encoder.carry.zero_()

    def feed(self, frames):
        """frames: [1, mels, n] with n up to the chunk size."""
        n = frames.shape[-1]
        self.chunk[..., :n].copy_(frames)
        self.graph.replay()
        self.posteriors[self.count].copy_(self.log_probs[0])
        logger.debug(f"chunk {self.count}: energy {self.energy:.4f}")
        self.count += 1
        return n

    def transcribe(self, utterance):
        lengths = []
        for frames in utterance.split(self.size, dim=-1):
            lengths.append(self.feed(frames))
        return self.posteriors[: self.count], lengths


def build(device):
    torch.manual_seed(2)
    encoder = ChunkEncoder().to(device).eval().requires_grad_(False)
    return encoder, (torch.randn(1, 40, 32, device=device),)
