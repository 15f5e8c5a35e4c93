"""Decode attention over a preallocated cache with one graph per table key."""
import math

import torch

DEV = torch.device("cuda")
HEAD, CAPACITY = 32, 128


class Attention:
    def __init__(self, batches):
        gen = torch.Generator().manual_seed(3)
        top = max(batches)
        self.k = torch.randn(top, CAPACITY, HEAD, generator=gen).to(DEV)
        self.v = torch.randn(top, CAPACITY, HEAD, generator=gen).to(DEV)
        self.q = torch.zeros(top, 1, HEAD, device=DEV)
        self.table = {}

    def attend(self, batch, length):
        k = self.k[:batch, :length]
        v = self.v[:batch, :length]
        scores = self.q[:batch] @ k.transpose(1, 2) / math.sqrt(HEAD)
        return scores.softmax(-1) @ v

    def key(self, batch, length):
        return (batch, length)

    def add(self, batch, length):
        key = self.key(batch, length)
        if key in self.table:
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.attend(batch, length)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.attend(batch, length)
        self.table[key] = (graph, out)

    def __call__(self, q, length):
        batch = q.shape[0]
        graph, out = self.table[self.key(batch, length)]
        self.q[:batch].copy_(q)
        graph.replay()
        return out


@torch.no_grad()
def main():
    batches, lengths = (2, 4), (32, 64, 128)
    attention = Attention(batches)
    for batch in batches:
        for length in lengths:
            attention.add(batch, length)
    gen = torch.Generator(device=DEV).manual_seed(4)
    total = torch.zeros(HEAD, device=DEV)
    for step in range(24):
        length = lengths[min(step // 8, 2)]
        q = torch.randn(batches[step % 2], 1, HEAD, device=DEV, generator=gen)
        total += attention(q, length).sum((0, 1))
    print(round(float(total.norm()), 4))


if __name__ == "__main__":
    main()
