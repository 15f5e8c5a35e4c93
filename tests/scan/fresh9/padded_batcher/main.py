"""Pad small batches to the captured size and score them together."""

import torch
from torch import nn


class SetScorer(nn.Module):
    """Scores an item by its distance from the mean of its set."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Linear(width, width)

    def forward(self, items):
        z = self.embed(items)
        return (z - z.mean(dim=0, keepdim=True)).norm(dim=-1)


class PaddedRunner:
    def __init__(self, model, capacity, width, device):
        self.model = model
        self.capacity = capacity
        self.static_items = torch.zeros(capacity, width, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph, self.static_scores = self._capture()

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            for _ in range(2):
                self.model(self.static_items)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, stream=self.stream):
            scores = self.model(self.static_items)
        return graph, scores

    def __call__(self, items):
        count = items.shape[0]
        if count > self.capacity:
            raise ValueError(f"at most {self.capacity} items")
        self.static_items[:count].copy_(items)
        self.graph.replay()
        return self.static_scores[:count].clone()


def batches(device, width):
    for count in (8, 3, 5, 8, 2):
        yield torch.randn(count, width, device=device)


def main():
    device = torch.device("cuda", 0)
    width = 6
    model = SetScorer(width).to(device).eval()
    runner = PaddedRunner(model, 8, width, device)
    ranked = [runner(items).argsort() for items in batches(device, width)]
    print([len(order) for order in ranked])


if __name__ == "__main__":
    main()
