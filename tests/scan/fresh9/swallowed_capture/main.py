"""A manager that tries a graph and goes on without one."""

import logging

import torch
from torch import nn

log = logging.getLogger("manager")


class Adaptive(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 1)
        self.small = nn.Linear(width, width)
        self.large = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    def forward(self, x):
        need = torch.sigmoid(self.gate(x)).mean()
        branch = self.large if need.item() > 0.5 else self.small
        return branch(x)


class GraphManager:
    def __init__(self, model, example):
        self.model = model
        self.static_in = example.clone()
        self.static_out = None
        self.graph = None
        self.stream = torch.cuda.Stream(example.device)

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.model(self.static_in)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.no_grad(), torch.cuda.graph(graph, stream=self.stream):
                self.static_out = self.model(self.static_in)
            self.graph = graph
        except RuntimeError as error:
            log.debug("no graph: %s", error)
        return self

    def __exit__(self, *exc):
        self.graph = None
        return False

    def __call__(self, x):
        if self.graph is None:
            with torch.no_grad():
                return self.model(x)
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()


def main():
    device = torch.device("cuda")
    model = Adaptive(8).to(device).eval()
    outputs = []
    with GraphManager(model, torch.zeros(4, 8, device=device)) as run:
        for _ in range(4):
            outputs.append(run(torch.randn(4, 8, device=device)))
    print(len(outputs))


if __name__ == "__main__":
    main()
