"""Overlaps the upload of the next batch with the work on the current one."""
import torch
from torch import nn

WIDTH, ROWS, DEPTH, BATCHES = 128, 32, 16, 50


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stack = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, x):
        for layer in self.stack:
            x = x + 0.2 * torch.sin(layer(x))
        return x


class Uploader:
    """Two device slots, filled on a stream of their own."""

    def __init__(self, batches, device):
        self.batches = batches.pin_memory()
        self.slots = [torch.zeros(ROWS, WIDTH, device=device) for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.ready = [torch.cuda.Event(), torch.cuda.Event()]
        self.taken = [torch.cuda.Event(), torch.cuda.Event()]
        self.stream.wait_stream(torch.cuda.current_stream())

    def start(self, i):
        slot = i % 2
        with torch.cuda.stream(self.stream):
            self.slots[slot].copy_(self.batches[i], non_blocking=True)
            self.ready[slot].record(self.stream)

    def take(self, i, into):
        slot = i % 2
        main = torch.cuda.current_stream()
        main.wait_event(self.ready[slot])
        into.copy_(self.slots[slot])
        self.taken[slot].record(main)


class Worker:
    def __init__(self, device):
        self.net = Net().to(device).eval()
        self.x = torch.zeros(ROWS, WIDTH, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.net(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.x)


@torch.no_grad()
def main():
    torch.manual_seed(8)
    device = torch.device("cuda")
    worker = Worker(device)
    uploader = Uploader(torch.randn(BATCHES, ROWS, WIDTH), device)
    marks = torch.linspace(1.0, 3.0, BATCHES).to(device)
    total = torch.zeros((), device=device)
    uploader.start(0)
    for i in range(BATCHES):
        uploader.take(i, worker.x)
        if i + 1 < BATCHES:
            uploader.start(i + 1)
        worker.graph.replay()
        total.add_(worker.y.mean() * marks[i])
    print(f"batches {BATCHES} total {total.item():.5f}")


if __name__ == "__main__":
    main()
