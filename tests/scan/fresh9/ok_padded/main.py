"""Pad small batches; the tail is cleared before each replay."""

import torch
from torch import nn


class SetScorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Linear(width, width)

    def forward(self, items, valid):
        z = self.embed(items) * valid
        mean = z.sum(dim=0, keepdim=True) / valid.sum()
        return (z - mean).norm(dim=-1)


class PaddedRunner:
    def __init__(self, model, capacity, width, device):
        self.model = model
        self.capacity = capacity
        self.items = torch.zeros(capacity, width, device=device)
        self.valid = torch.ones(capacity, 1, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph, self.scores = self._capture()

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            for _ in range(2):
                self.model(self.items, self.valid)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, stream=self.stream):
            scores = self.model(self.items, self.valid)
        return graph, scores

    def _fill(self, items):
        count = items.shape[0]
        self.items[:count].copy_(items)
        self.items[count:].zero_()
        self.valid[:count].fill_(1.0)
        self.valid[count:].zero_()
        return count

    def __call__(self, items):
        count = self._fill(items)
        self.graph.replay()
        return self.scores[:count].clone()


def main():
    device = torch.device("cuda", 0)
    runner = PaddedRunner(SetScorer(6).to(device).eval(), 8, 6, device)
    ranked = []
    for count in (8, 3, 5, 8, 2):
        ranked.append(runner(torch.randn(count, 6, device=device)).argsort())
    print([len(order) for order in ranked])


if __name__ == "__main__":
    main()
