"""Captures the decode step and keeps its graph and static tensors."""

import torch
import torch.nn as nn
from cache import Cache

VOCAB, WIDTH, LENGTH = 80, 32, 40


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, cache, bias):
        q, k, v = self.qkv(self.embed(token)).chunk(3, -1)
        cache.write(k, v)
        places = torch.arange(cache.keys.shape[1], device=token.device)
        score = torch.einsum("bd,bld->bl", q, cache.keys) + bias
        weight = score.masked_fill(places > cache.fill.unsqueeze(1), -1e9).softmax(-1)
        cache.mass.mul_(0.9).add_(weight)
        cache.fill.add_(1)
        return self.head(torch.einsum("bl,bld->bd", weight, cache.values)).argmax(-1)


class GraphManager:
    def __init__(self, batch):
        self.model = Decoder().cuda().requires_grad_(False)
        self.cache = Cache.empty(batch, LENGTH, WIDTH)
        self.token = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.graph = None

    def capture(self):
        bias = -0.05 * torch.arange(LENGTH, device="cuda").flip(0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(self.token, self.cache, bias)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.next = self.model(self.token, self.cache, bias)
        self.cache.fill.zero_()

    def step(self, token):
        self.token.copy_(token)
        self.graph.replay()
        return self.next.clone()

    def make_room(self, kept):
        self.cache = self.cache.evict(kept)
