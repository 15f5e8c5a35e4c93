"""An encoder service that keeps captured graphs in a dictionary by sequence length."""
import random
import time

import torch
from torch import nn

MAX_LEN = 128
STEP = 1


class Encoder(nn.Module):
    def __init__(self, vocab=200, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.gate = nn.Linear(width, width)

    def forward(self, ids, mask):
        x = self.embed(ids)
        x = x * torch.sigmoid(self.gate(x))
        mask = mask.unsqueeze(-1)
        return (x * mask).sum(dim=0) / mask.sum(dim=0)


class Graphed:
    def __init__(self, model, length, device):
        self.ids = torch.zeros(length, dtype=torch.long, device=device)
        self.mask = torch.ones(length, device=device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            model(self.ids, self.mask)
            model(self.ids, self.mask)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = model(self.ids, self.mask)

    def __call__(self, ids):
        n = ids.shape[0]
        self.ids[:n].copy_(ids)
        self.mask.zero_()
        self.mask[:n].fill_(1.0)
        self.graph.replay()
        return self.out


class Service:
    def __init__(self, device):
        self.device = device
        self.model = Encoder().to(device).requires_grad_(False)
        self.by_length = {}

    def bucket(self, n):
        return min(-(-n // STEP) * STEP, MAX_LEN)

    def encode(self, ids):
        length = self.bucket(ids.shape[0])
        if length not in self.by_length:
            self.by_length[length] = Graphed(self.model, length, self.device)
        return self.by_length[length](ids).cpu()


def main():
    torch.manual_seed(0)
    rng = random.Random(12)
    service = Service(torch.device("cuda"))
    slowest, norm = 0.0, 0.0
    for _ in range(36):
        ids = torch.randint(0, 200, (rng.randint(4, MAX_LEN),))
        begin = time.perf_counter()
        norm += service.encode(ids).norm().item()
        slowest = max(slowest, time.perf_counter() - begin)
    print(f"norm {norm:.4f}, slowest request {slowest * 1e3:.1f} ms")
    print("lengths", len(service.by_length))


if __name__ == "__main__":
    main()
