"""A simulation loop on a graph, with a latency histogram of its steps."""
import time

import torch


class Heat:
    """Explicit diffusion on a grid."""

    def __init__(self, device, n=96):
        self.grid = torch.zeros(n, n, device=device)
        self.source = torch.zeros(n, n, device=device)
        self.source[n // 2, n // 2] = 1.0

    def step(self):
        g = self.grid
        for _ in range(4):
            lap = -4 * g
            for dim in (0, 1):
                for shift in (1, -1):
                    lap = lap + torch.roll(g, shift, dim)
            g = g + 0.1 * lap
        self.grid.copy_(g + self.source)


class Timer:
    def __init__(self):
        self.marks = []

    def start(self):
        self.marks.append((time.perf_counter(), 0.0))

    def stop(self):
        torch.cuda.synchronize()
        begin, _ = self.marks[-1]
        self.marks[-1] = (begin, time.perf_counter())

    def millis(self):
        return [(end - begin) * 1e3 for begin, end in self.marks]


def histogram(values, bins=5):
    low, high = min(values), max(values)
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / width), bins - 1)] += 1
    return counts


def build(heat):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        heat.step()
        heat.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        heat.step()
    return graph


@torch.no_grad()
def main():
    device = torch.device("cuda")
    heat = Heat(device)
    graph = build(heat)
    timer = Timer()
    for _ in range(50):
        timer.start()
        graph.replay()
        timer.stop()
    print("heat", round(heat.grid.sum().item(), 3))
    print("histogram", sum(histogram(timer.millis())))


if __name__ == "__main__":
    main()
