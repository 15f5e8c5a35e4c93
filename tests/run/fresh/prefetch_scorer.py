"""Replays a scoring graph over a table that is streamed in pieces."""
import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, items, users, width):
        super().__init__()
        self.item = nn.Sequential(nn.Linear(items, width), nn.ReLU(), nn.Linear(width, width))
        self.user = nn.Sequential(nn.Linear(users, width), nn.ReLU(), nn.Linear(width, width))
        self.side = torch.cuda.Stream() if torch.cuda.is_available() else None

    def forward(self, items, users):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            u = self.user(users)
        i = self.item(items)
        return (i * u).sum(-1)


class Feed:
    """Hands out rows of a pinned host table."""

    def __init__(self, table, rows):
        self.table = table.pin_memory()
        self.rows = rows

    def __len__(self):
        return self.table.shape[0] // self.rows

    def __getitem__(self, k):
        return self.table[k * self.rows : (k + 1) * self.rows]


class Scorer:
    def __init__(self, model, rows, items, users, device):
        self.model = model
        self.items = torch.zeros(rows, items, device=device)
        self.users = torch.zeros(rows, users, device=device)
        self.device = device
        self.graph = torch.cuda.CUDAGraph()
        self.scores = None

    def prepare(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                self.model(self.items, self.users)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.scores = self.model(self.items, self.users)

    def sweep(self, feed, users):
        self.users.copy_(users)
        best = torch.full_like(self.scores, float("-inf"))
        for k in range(len(feed)):
            rows = feed[k].to(self.device)
            self.items.copy_(rows)
            self.graph.replay()
            torch.maximum(best, self.scores, out=best)
        return best


def main():
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    model = TwoTower(32, 16, 64).to(device).eval()
    scorer = Scorer(model, 256, 32, 16, device)
    scorer.prepare()
    feed = Feed(torch.randn(4096, 32), 256)
    result = scorer.sweep(feed, torch.randn(256, 16, device=device))
    print(result.mean().item())


if __name__ == "__main__":
    main()
