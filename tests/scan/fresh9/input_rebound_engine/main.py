"""An engine whose inputs live in a small namespace."""

import types

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, 2)

    def forward(self, features, mask):
        hidden = torch.relu(self.a(features)) * mask.unsqueeze(-1)
        return self.b(hidden).sum(dim=1)


class Engine:
    def __init__(self, model, batch, length, width, device):
        self.model = model
        self.device = device
        self.slots = types.SimpleNamespace(
            features=torch.zeros(batch, length, width, device=device),
            mask=torch.ones(batch, length, device=device),
        )
        self.graph = None
        self.output = None

    def forward(self):
        return self.model(self.slots.features, self.slots.mask)

    def warm(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            self.forward()
            self.forward()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.output = self.forward()
        return self

    def _load(self, features, mask):
        self.slots.features.copy_(features)
        self.slots.mask = mask

    def infer(self, features, mask):
        self._load(features, mask)
        self.graph.replay()
        return self.output.clone()


def main():
    device = torch.device("cuda")
    engine = Engine(Head(4).to(device), 2, 5, 4, device).warm()
    results = []
    for keep in range(1, 5):
        features = torch.randn(2, 5, 4, device=device)
        mask = (torch.arange(5, device=device) < keep).float().expand(2, 5)
        results.append(engine.infer(features, mask))
    print(torch.stack(results).shape)


if __name__ == "__main__":
    main()
