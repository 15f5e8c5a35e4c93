"""A graphed projection built by a factory function; the caller only copies in, replays and reads."""
import torch

DEV = torch.device("cuda")
IN, MID, OUT, BATCH = 96, 256, 32, 12


class Stats:
    def __init__(self):
        self.n = 0
        self.total = torch.zeros((), device=DEV, dtype=torch.float64)

    def push(self, y):
        self.n += 1
        self.total += y.double().pow(2).mean()


def load(name, rows, cols):
    gen = torch.Generator().manual_seed(sum(map(ord, name)))
    return (torch.randn(rows, cols, generator=gen) / rows ** 0.5).to(DEV)


def build_projection():
    up = load("up", IN, MID)
    down = load("down", MID, OUT)
    x = torch.zeros(BATCH, IN, device=DEV)

    def step():
        return torch.relu(x @ up) @ down

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = step()
    return graph, x, y, (up, down)


@torch.no_grad()
def serve(requests):
    graph, x, y, _weights = build_projection()
    stats = Stats()
    recent = []
    for batch in requests:
        x.copy_(batch)
        graph.replay()
        stats.push(y)
        recent.append(torch.full((IN, MID), 0.25, device=DEV))
        if len(recent) > 4:
            recent.pop(0)
    return stats


def main():
    gen = torch.Generator().manual_seed(5)
    requests = [torch.randn(BATCH, IN, generator=gen).to(DEV) for _ in range(16)]
    stats = serve(requests)
    print(round(stats.total.item() / stats.n, 5))


if __name__ == "__main__":
    main()
