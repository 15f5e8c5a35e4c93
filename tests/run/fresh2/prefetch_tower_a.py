"""Inference loop with a prefetcher that uploads the next batch on a copy stream."""
import torch
from torch import nn

DEV = torch.device("cuda")
ROWS, DIM, STEPS = 128, 256, 20


class Prefetcher:
    def __init__(self, batches, target):
        self.batches = iter(batches)
        self.target = target
        self.stream = torch.cuda.Stream()
        self.ready = torch.cuda.Event()

    def advance(self):
        batch = next(self.batches, None)
        if batch is None:
            return False
        with torch.cuda.stream(self.stream):
            self.target.copy_(batch, non_blocking=True)
            self.ready.record(self.stream)
        return True

    def wait(self):
        torch.cuda.current_stream().wait_event(self.ready)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(DIM, DIM) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def capture(model, x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    return graph, y


@torch.no_grad()
def main():
    torch.manual_seed(8)
    model = Tower().to(DEV).eval()
    x = torch.zeros(ROWS, DIM, device=DEV)
    graph, y = capture(model, x)
    host = [torch.randn(ROWS, DIM).mul_(0.1).pin_memory() for _ in range(STEPS)]
    torch.cuda.synchronize()

    loader = Prefetcher(host, x)
    total = torch.zeros((), device=DEV)
    while loader.advance():
        loader.wait()
        graph.replay()
        total += y.mean()
    print(round(float(total), 4))


if __name__ == "__main__":
    main()
