"""Evaluate an encoder made graphable by make_graphed_callables."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, width))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


class EmbeddingIndex:
    def __init__(self):
        self.parts = []

    def __iadd__(self, part):
        self.parts.append(part)
        return self

    def finish(self):
        return torch.cat(self.parts)


def make_encoder(width, batch, device):
    encoder = Encoder(width).to(device)
    sample = torch.randn(batch, width, device=device)
    return torch.cuda.make_graphed_callables(encoder, (sample,))


def embed(encoder, batches):
    index = EmbeddingIndex()
    for batch in batches:
        vectors = encoder(batch).detach()
        torch.cuda.synchronize()
        index += vectors
    return index.finish()


def corpus(device, width, batch, count):
    for _ in range(count):
        yield torch.randn(batch, width, device=device)


def main():
    device = torch.device("cuda")
    encoder = make_encoder(8, 4, device)
    vectors = embed(encoder, corpus(device, 8, 4, 5))
    similarity = vectors @ vectors.T
    print(similarity.shape)


if __name__ == "__main__":
    main()
