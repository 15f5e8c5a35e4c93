"""Feature server: rows arrive on the host, a deep tower scores them."""
import torch
from torch import nn

ROWS, FEATURES, DEPTH, BATCHES = 32, 128, 24, 60


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(FEATURES, FEATURES) for _ in range(DEPTH))
        self.last = nn.Linear(FEATURES, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + 0.1 * torch.tanh(layer(x))
        return self.last(x)


class Feeder:
    def __init__(self, source):
        self.source = source
        self.page = torch.zeros(ROWS, FEATURES, pin_memory=True)

    def fetch(self, i):
        self.page.copy_(self.source[i])
        return self.page


class Scorer:
    def __init__(self, device):
        self.tower = Tower().to(device).eval()
        self.x = torch.zeros(ROWS, FEATURES, device=device)
        self.y = torch.zeros(ROWS, 1, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.warm()
        with torch.cuda.graph(self.graph):
            self.y.copy_(self.tower(self.x))

    def warm(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.y.copy_(self.tower(self.x))
        torch.cuda.current_stream().wait_stream(side)

    def score(self, page):
        self.x.copy_(page, non_blocking=True)
        self.graph.replay()
        return self.y


@torch.no_grad()
def main():
    torch.manual_seed(7)
    device = torch.device("cuda")
    scorer = Scorer(device)
    feeder = Feeder(torch.randn(BATCHES, ROWS, FEATURES))
    weights = torch.linspace(-1.0, 1.0, BATCHES).to(device)
    total = torch.zeros((), device=device)
    for i in range(BATCHES):
        y = scorer.score(feeder.fetch(i))
        total.add_(y.mean() * weights[i])
    print(f"batches {BATCHES} total {total.item():.5f}")


if __name__ == "__main__":
    main()
