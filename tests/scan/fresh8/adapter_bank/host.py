"""Routes requests to a tower that carries one adapter at a time."""
from __future__ import annotations

import time
from collections import Counter, OrderedDict

import torch

from .parts import Tower


class Adapter:
    def __init__(self, tower: Tower, rank: int, alpha: float):
        make = lambda *shape: torch.randn(*shape).mul_(0.02).pin_memory()
        self.pairs = [(make(rank, m.down.shape[1]), make(m.up.shape[0], rank)) for m in tower.layers]
        self.strength = alpha / rank


class Host:
    def __init__(self, tower: Tower, rows: int, width: int, device: torch.device):
        self.tower = tower.to(device).eval()
        self.library: OrderedDict[str, Adapter] = OrderedDict()
        self.served: Counter[str] = Counter()
        self.inputs = torch.zeros(rows, width, device=device)
        self.device = device
        self.current = ""
        self.graph = torch.cuda.CUDAGraph()
        self.spent = 0.0

    @torch.no_grad()
    def start(self) -> None:
        begin = time.perf_counter()
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.tower(self.inputs)
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self.outputs = self.tower(self.inputs)
        torch.cuda.synchronize(self.device)
        print(f"ready after {time.perf_counter() - begin:.2f} s")

    def select(self, name: str) -> None:
        adapter = self.library[name]
        if name != self.current:
            for layer, (down, up) in zip(self.tower.layers, adapter.pairs):
                layer.install(down, up, adapter.strength)
            self.current = name
        self.library.move_to_end(name)

    def serve(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        self.select(name)
        n = rows.shape[0]
        self.inputs[:n].copy_(rows)
        self.inputs[n:].zero_()
        self.graph.replay()
        self.served[name] += n
        return self.outputs[:n].clone()


def main() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    tower = Tower(64, 16, 3)
    host = Host(tower, 32, 64, device)
    for name, rank in (("law", 4), ("medicine", 8), ("poems", 16)):
        host.library[name] = Adapter(tower, rank, alpha=16)
    host.start()
    total = torch.zeros((), device=device)
    for i in range(60):
        out = host.serve(("law", "medicine", "poems")[i % 3], torch.randn(1 + i % 32, 64, device=device))
        total += out.mean()
    print(dict(host.served), total.item())


if __name__ == "__main__":
    main()
