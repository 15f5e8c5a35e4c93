"""Batch inference over a ring of slots: a copy stream fills slots ahead while recorded steps work on the others."""

import torch
from torch import nn

BATCHES, ROWS, WIDTH, SLOTS = 48, 128, 512, 3


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = x
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return (x * start).mean(dim=-1)


class Ring:
    def __init__(self, tower: Tower, device: torch.device) -> None:
        self.slots = [torch.zeros(ROWS, WIDTH, device=device) for _ in range(SLOTS)]
        self.upload = torch.cuda.Stream()
        self.compute = torch.cuda.Stream()
        self.full = [torch.cuda.Event() for _ in range(SLOTS)]
        self.free = [torch.cuda.Event() for _ in range(2)]
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.results: list[torch.Tensor] = []
        self.compute.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.compute):
            for slot in self.slots:
                tower(slot)
        self.compute.synchronize()
        for slot in self.slots:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.compute):
                self.results.append(tower(slot))
            self.graphs.append(graph)
        self.upload.wait_stream(torch.cuda.current_stream())

    def fill(self, number: int, page: torch.Tensor) -> None:
        slot = number % SLOTS
        with torch.cuda.stream(self.upload):
            if number >= SLOTS:
                self.upload.wait_event(self.free[number % len(self.free)])
            self.slots[slot].copy_(page, non_blocking=True)
            self.full[slot].record(self.upload)

    def launch(self, number: int, out: torch.Tensor) -> None:
        slot = number % SLOTS
        with torch.cuda.stream(self.compute):
            self.compute.wait_event(self.full[slot])
            self.graphs[slot].replay()
            out.copy_(self.results[slot])
            self.free[number % len(self.free)].record(self.compute)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(13)
    device = torch.device("cuda")
    pages = [torch.randn(ROWS, WIDTH).pin_memory() for _ in range(BATCHES)]
    table = torch.zeros(BATCHES, ROWS, device=device)
    tower = Tower().to(device).eval()
    torch.cuda.synchronize()
    ring = Ring(tower, device)
    for number in range(SLOTS):
        ring.fill(number, pages[number])
    for number in range(BATCHES):
        ring.launch(number, table[number])
        if number + SLOTS < BATCHES:
            ring.fill(number + SLOTS, pages[number + SLOTS])
    ring.compute.synchronize()
    print("batches", BATCHES, "mean", f"{table.mean().item():+.6f}", "spread", f"{table.std().item():.6f}")


if __name__ == "__main__":
    main()
