"""Adapters for a shared base model; a loader thread brings new versions.

Requests name an adapter.  Each adapter has a graph of its own (they share one
memory pool), captured once at start.
"""
import queue
import threading

import torch
import torch.nn as nn

device = torch.device("cuda")
DIM, RANK, BATCH = 64, 8, 4
NAMES = ("chat", "code")


class Slot:
    """Low-rank pair of one adapter, resident on the GPU."""

    def __init__(self, weights):
        self.a = weights["a"].to(device)
        self.b = weights["b"].to(device)

    def install(self, weights):
        self.a = weights["a"].to(device)
        self.b = weights["b"].to(device)

    def __call__(self, x):
        return (x @ self.a) @ self.b


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(DIM, DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, slot):
        h = torch.tanh(self.inp(x) + slot(x))
        return self.out(h)


class AdapterServer:
    def __init__(self, base, slots):
        self.base, self.slots = base, slots
        self.pool = torch.cuda.graph_pool_handle()
        self.x = torch.zeros(BATCH, DIM, device=device)
        self.entries = {name: self._capture(slot) for name, slot in slots.items()}

    @torch.no_grad()
    def _capture(self, slot):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                self.base(self.x, slot)
        torch.cuda.current_stream().wait_stream(warm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            y = self.base(self.x, slot)
        return graph, y

    def infer(self, name, x):
        graph, y = self.entries[name]
        self.x.copy_(x)
        graph.replay()
        return y.clone()

    @torch.no_grad()
    def reference(self, name, x):
        return self.base(x, self.slots[name])


def make_adapter(seed):
    gen = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(DIM, RANK, generator=gen) * 0.3,
        "b": torch.randn(RANK, DIM, generator=gen) * 0.3,
    }


def loader(arrivals, versions):
    """Reads adapter files (here: makes them) away from the serving thread."""
    for version in range(1, versions + 1):
        for i, name in enumerate(NAMES):
            arrivals.put((version, name, make_adapter(100 * version + i)))
    arrivals.put(None)


def main():
    torch.manual_seed(1)
    base = Base().to(device).eval()
    slots = {name: Slot(make_adapter(i)) for i, name in enumerate(NAMES)}
    server = AdapterServer(base, slots)
    requests = torch.randn(24, BATCH, DIM).to(device)

    arrivals = queue.Queue(maxsize=2)
    thread = threading.Thread(target=loader, args=(arrivals, 3), daemon=True)
    thread.start()

    errors, norms = [], []
    cursor = 0
    while True:
        for name in NAMES:
            x = requests[cursor % len(requests)]
            cursor += 1
            got = server.infer(name, x)
            errors.append((got - server.reference(name, x)).abs().max())
            norms.append(got.abs().mean())
        item = arrivals.get()
        if item is None:
            break
        _, name, weights = item
        server.slots[name].install(weights)
    thread.join()

    worst = float(torch.stack(errors).nan_to_num(1e9).max())
    print("RESULT", round(float(torch.stack(norms).sum()), 4))
    print("CHECK ok" if worst < 1e-4 else f"CHECK wrong: answers differ by {worst:.4g}")


if __name__ == "__main__":
    main()
