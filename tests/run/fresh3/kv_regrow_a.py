"""Token-by-token decoding with a key/value cache that serves prompts of several lengths."""
import math

import torch

device = torch.device("cuda")


class KVCache:
    def __init__(self, heads, length, dim):
        self.heads, self.dim = heads, dim
        self.length = length
        self.k = torch.zeros(heads, length, dim, device=device)
        self.v = torch.zeros(heads, length, dim, device=device)

    def reserve(self, length):
        if length <= self.length:
            return
        k = torch.zeros(self.heads, length, self.dim, device=device)
        v = torch.zeros(self.heads, length, self.dim, device=device)
        k[:, : self.length] = self.k
        v[:, : self.length] = self.v
        self.k, self.v, self.length = k, v, length

    def fill(self, k, v):
        n = k.shape[1]
        self.k[:, :n].copy_(k)
        self.v[:, :n].copy_(v)


class Decoder:
    def __init__(self, cache, heads=4, dim=16):
        self.cache = cache
        self.heads, self.dim = heads, dim
        gen = torch.Generator().manual_seed(0)
        self.wqkv = (torch.randn(heads * dim, 3 * heads * dim, generator=gen) * 0.1).to(device)
        self.x = torch.zeros(1, heads * dim, device=device)
        self.pos = torch.zeros(1, dtype=torch.long, device=device)

    def step(self):
        q, k, v = (self.x @ self.wqkv).view(3, self.heads, 1, self.dim)
        cache = self.cache
        cache.k.index_copy_(1, self.pos, k)
        cache.v.index_copy_(1, self.pos, v)
        scores = q @ cache.k.transpose(1, 2) / math.sqrt(self.dim)
        seen = torch.arange(cache.k.shape[1], device=device) <= self.pos
        scores = scores.masked_fill(~seen, float("-inf"))
        out = torch.softmax(scores, -1) @ cache.v
        self.pos.add_(1)
        return out.reshape(1, -1)

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.step()


@torch.no_grad()
def serve(prompts, new_tokens, budget):
    heads, dim = 4, 16
    cache = KVCache(heads, 32, dim)
    decoder = Decoder(cache, heads, dim)
    decoder.record()
    for number, length in enumerate(prompts):
        cache.reserve(length + budget)
        cache.fill(
            torch.randn(heads, length, dim, device=device),
            torch.randn(heads, length, dim, device=device),
        )
        decoder.pos.fill_(length)
        decoder.x.fill_(0.1)
        for _ in range(new_tokens):
            decoder.graph.replay()
            decoder.x.copy_(decoder.out)
        print(f"prompt {number}: {length} tokens, norm {decoder.x.norm().item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    serve(prompts=(8, 6, 20, 12, 18), new_tokens=10, budget=24)
