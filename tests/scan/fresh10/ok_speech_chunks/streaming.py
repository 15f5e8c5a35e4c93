"""Chunked acoustic encoder; short last chunks are padded and masked."""
import torch
import torch.nn as nn


class ChunkEncoder(nn.Module):
    def __init__(self, mels=40, dim=32, kernel=5, vocab=30, chunk=32):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv1d(mels, dim, kernel)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("carry", torch.zeros(1, mels, kernel - 1))
        self.register_buffer("frame", torch.arange(chunk))

    def forward(self, chunk, length):
        padded = torch.cat([self.carry, chunk], dim=-1)
        self.carry.copy_(padded[..., -(self.kernel - 1):])
        feats = torch.relu(self.conv(padded)).transpose(1, 2)
        real = (self.frame < length).view(1, -1, 1)
        pooled = (feats * real).sum(dim=1, keepdim=True) / length
        hidden = torch.tanh(self.mix(feats)) + pooled
        return self.head(hidden).log_softmax(-1)


class StreamingRecognizer:
    def __init__(self, device, chunk=32, mels=40, max_chunks=64):
        torch.manual_seed(2)
        self.device = device
        self.size = chunk
        self.encoder = ChunkEncoder(mels=mels, chunk=chunk).to(device).eval().requires_grad_(False)
        self.chunk = torch.zeros(1, mels, chunk, device=device)
        self.length = torch.full((1,), chunk, device=device)
        self.posteriors = torch.zeros(max_chunks, chunk, 30, device=device)
        self.count = 0
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self.encoder(self.chunk, self.length)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.log_probs = self.encoder(self.chunk, self.length)
        self.encoder.carry.zero_()

    def feed(self, frames):
        n = frames.shape[-1]
        if n < self.size:
            self.chunk.zero_()
        self.chunk[..., :n].copy_(frames)
        self.length.fill_(n)
        self.graph.replay()
        self.posteriors[self.count].copy_(self.log_probs[0])
        self.count += 1

    def transcribe(self, utterance):
        """utterance: [1, mels, frames] on the device."""
        self.encoder.carry.zero_()
        self.count = 0
        for frames in utterance.split(self.size, dim=-1):
            self.feed(frames)
        best = self.posteriors[: self.count].argmax(-1).flatten()
        return best[: utterance.shape[-1]]


def build(device):
    torch.manual_seed(2)
    encoder = ChunkEncoder().to(device).eval().requires_grad_(False)
    length = torch.full((1,), 20, device=device)
    return encoder, (torch.randn(1, 40, 32, device=device), length)
