import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, dim=16, rank=2):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.a = nn.Parameter(torch.randn(rank, dim) * 0.1)
        self.b = nn.Parameter(torch.randn(dim, rank) * 0.1)
        self.enabled = True

    def forward(self, x):
        y = self.base(x)
        if self.enabled:
            y = y + x @ self.a.T @ self.b.T
        return y


class Worker:
    def __init__(self, device):
        self.layer = LoraLinear().to(device).requires_grad_(False)
        self.x = torch.zeros(4, 16, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.layer(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.layer(self.x)

    def load(self, adapter):
        self.layer.a.data = adapter["a"]
        self.layer.b.data.copy_(adapter["b"])

    def toggle(self, on):
        self.layer.enabled = on

    def serve(self, batch):
        self.x = batch
        self.graph.replay()
        return self.y.clone()


def main(device="cuda"):
    w = Worker(device)
    for i in range(4):
        w.load({"a": torch.randn(2, 16, device=device), "b": torch.randn(16, 2, device=device)})
        w.toggle(i % 2 == 0)
        print(w.serve(torch.randn(4, 16, device=device)).shape)


if __name__ == "__main__":
    main()
