"""Feature scoring with one staging buffer in pinned memory."""
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        for _ in range(4):
            x = x + self.layers(x)
        return self.head(x).squeeze(-1)


class Feed:
    """Host batches of a log file, made up here."""

    def __init__(self, batch, features, steps, seed=0):
        self.shape = (batch, features)
        self.steps = steps
        self.gen = torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(self.steps):
            yield torch.rand(self.shape, generator=self.gen)


class StagedRunner:
    def __init__(self, model, batch, features, device):
        self.model = model
        self.stage = torch.empty(batch, features, pin_memory=True)
        self.x = torch.zeros(batch, features, device=device)
        self.total = torch.zeros(batch, device=device)
        self.copied = torch.cuda.Event()
        self.steps = 0
        self._capture()

    def _capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.score = self.model(self.x)

    def submit(self, batch):
        self.stage.copy_(batch)
        self.x.copy_(self.stage, non_blocking=True)
        self.copied.record()
        self.graph.replay()
        self.total.add_(self.score)
        self.steps += 1

    def result(self):
        torch.cuda.synchronize()
        return (self.total / self.steps).tolist()


def main():
    torch.manual_seed(9)
    device = torch.device("cuda")
    batch, features = 256, 128
    model = Scorer(features, features).to(device).requires_grad_(False)
    runner = StagedRunner(model, batch, features, device)
    for host_batch in Feed(batch, features, steps=40):
        runner.submit(host_batch)
    means = runner.result()
    print("rows", len(means), "first", round(means[0], 5), "last", round(means[-1], 5))


if __name__ == "__main__":
    main()
