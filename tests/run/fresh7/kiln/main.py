"""Ranking service; executors for each list length are prepared by a background pool."""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

WIDTH, LENGTHS = 32, (8, 16, 32, 64)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, items, live):
        if items.shape[0] > 32:                     # long lists: score live items only
            out = torch.full((items.shape[0],), -1e4, device=items.device)
            out[live] = self.score(items[live]).squeeze(-1)
            return out
        return self.score(items).squeeze(-1).masked_fill(~live, -1e4)


class Slot:
    def __init__(self, length, device):
        self.items = torch.zeros(length, WIDTH, device=device)
        self.live = torch.ones(length, dtype=torch.bool, device=device)
        self.scores = torch.zeros(length, device=device)
        self.graph = None


class Service:
    def __init__(self, device):
        self.model = Ranker().to(device).eval()
        self.slots = {n: Slot(n, device) for n in LENGTHS}

    def compute(self, slot):
        slot.scores.copy_(self.model(slot.items, slot.live))

    def build(self, length):
        slot = self.slots[length]
        with torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.compute(slot)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.compute(slot)
            slot.graph = graph

    def prepare(self):
        with ThreadPoolExecutor(max_workers=1) as pool:
            for length in LENGTHS:
                pool.submit(self.build, length)

    def rank(self, items, live):
        slot = self.slots[items.shape[0]]
        slot.items.copy_(items)
        slot.live.copy_(live)
        if slot.graph is not None:
            slot.graph.replay()
        else:
            self.compute(slot)
        return slot.scores


@torch.no_grad()
def main():
    torch.manual_seed(14)
    device = torch.device("cuda")
    service = Service(device)
    service.prepare()
    items = torch.randn(20, 64, WIDTH).to(device)
    live = (torch.rand(20, 64) > 0.3).to(device)
    best = torch.zeros((), device=device)
    for i in range(100):
        length = (64, 16, 64, 32, 8)[i % 5]
        best.add_(service.rank(items[i % 20, :length], live[i % 20, :length]).amax())
    print(f"requests 100 best {best.item():.4f}")


if __name__ == "__main__":
    main()
