"""Two-slot prefetcher: a copy stream fills one slot while the other slot's graph runs."""
import torch
from torch import nn

ROWS, DIM, STEPS = 256, 256, 40


class Slot:
    """One static input, the graph that reads it, and the events of their hand-over."""

    def __init__(self, model, pool, device):
        self.x = torch.zeros(ROWS, DIM, device=device)
        self.filled = torch.cuda.Event()
        self.consumed = torch.cuda.Event()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.y = model(self.x)
        self.consumed.record()


class Prefetcher:
    def __init__(self, source, slots):
        self.source = source
        self.slots = slots
        self.stream = torch.cuda.Stream()
        self.next = 0

    def fill(self):
        if self.next >= len(self.source):
            return
        slot = self.slots[self.next % len(self.slots)]
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.consumed)
            slot.x.copy_(self.source[self.next], non_blocking=True)
            slot.filled.record(self.stream)
        self.next += 1


def consume(slot, total):
    main = torch.cuda.current_stream()
    main.wait_event(slot.filled)
    slot.consumed.record(main)
    slot.graph.replay()
    total.add_(slot.y.square().mean())


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(DIM, 1024), nn.SiLU(), nn.Linear(1024, 1024), nn.SiLU(), nn.Linear(1024, DIM)
    ).to(device)
    pool = torch.cuda.graph_pool_handle()
    slots = [Slot(model, pool, device) for _ in range(2)]
    source = torch.empty(STEPS, ROWS, DIM, pin_memory=True)
    source.normal_()
    prefetcher = Prefetcher(source, slots)
    total = torch.zeros((), device=device)
    for _ in slots:
        prefetcher.fill()
    for step in range(STEPS):
        consume(slots[step % len(slots)], total)
        prefetcher.fill()
    print(f"mean energy {total.item() / STEPS:.5f}")


if __name__ == "__main__":
    main()
