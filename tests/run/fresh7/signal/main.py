"""Serves several tenants from one base model with low-rank adapters."""
import torch
from torch import nn

from adapters import ActiveAdapter, AdapterLibrary

WIDTH, RANK, BATCH = 64, 4, 8


class Block(nn.Module):
    def __init__(self, adapter):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.adapter = adapter

    def forward(self, x):
        h = torch.tanh(self.base(x) + self.adapter.apply(x))
        return self.out(h)


class Server:
    def __init__(self, device):
        library = AdapterLibrary(WIDTH, RANK, {"acme": 0.5, "bolt": 1.5, "corp": 3.0}, device)
        self.adapter = ActiveAdapter(library)
        self.model = Block(self.adapter).to(device).eval()
        self.x = torch.zeros(BATCH, WIDTH, device=device)
        self.y = torch.zeros(BATCH, WIDTH, device=device)
        self.graph = None

    def body(self):
        self.y.copy_(self.model(self.x))

    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.body()

    def answer(self, tenant, batch):
        self.adapter.activate(tenant)
        self.x.copy_(batch)
        self.graph.replay()
        return self.y


@torch.no_grad()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    server = Server(device)
    server.adapter.activate("acme")
    server.prepare()
    requests = torch.randn(60, BATCH, WIDTH).to(device)
    order = ["acme"] * 6 + ["bolt"] * 7 + ["acme"] * 2 + ["corp"] * 5
    total = torch.zeros((), device=device)
    for i in range(60):
        y = server.answer(order[i % len(order)], requests[i])
        total.add_(y.square().mean())
    print(f"served 60, energy {total.item():.4f}")


if __name__ == "__main__":
    main()
