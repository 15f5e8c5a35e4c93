"""Serves batches with several adapters over captured graphs."""
import torch
import torch.nn as nn
from adapters import AdapterManager, LoraLinear

DIM, RANK = 64, 4


class Server:
    def __init__(self):
        self.model = nn.Sequential(*(LoraLinear(DIM, RANK) for _ in range(3))).cuda().requires_grad_(False)
        self.manager = AdapterManager(list(self.model))
        self.graphs = {}
        self.inputs = {}
        self.outputs = {}

    def capture(self, batch):
        x = torch.zeros(batch, DIM, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.outputs[batch] = self.model(x)
        self.graphs[batch], self.inputs[batch] = graph, x

    def serve(self, x):
        batch = x.shape[0]
        if batch not in self.graphs:
            self.capture(batch)
        self.inputs[batch].copy_(x)
        self.graphs[batch].replay()
        return self.outputs[batch].clone()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    server = Server()
    for name in ("base", "chat", "code"):
        weights = [(torch.randn(RANK, DIM, device="cuda"), torch.randn(DIM, RANK, device="cuda")) for _ in range(3)]
        server.manager.register(name, weights, alpha=len(name))
    total = torch.zeros((), device="cuda")
    for round_ in range(9):
        server.manager.activate(("base", "chat", "code")[round_ % 3])
        total += server.serve(torch.randn(2 + round_ % 2, DIM, device="cuda")).norm()
    print("norm", total.item())


if __name__ == "__main__":
    main()
