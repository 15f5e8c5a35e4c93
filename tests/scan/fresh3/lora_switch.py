"""Serve one base model with several low-rank adapters, switched between requests."""
import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.register_buffer("a", torch.zeros(rank, dim))
        self.register_buffer("b", torch.zeros(dim, rank))
        self.scaling = 1.0

    def forward(self, x):
        return self.base(x) + self.scaling * (x @ self.a.T @ self.b.T)


class Backbone(nn.Module):
    def __init__(self, dim=16, rank=2, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(LoraLinear(dim, rank) for _ in range(depth))
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


class AdapterStore:
    def __init__(self, model, device):
        self.device = device
        self.shapes = [(l.a.shape, l.b.shape) for l in model.layers]
        self.adapters = {}

    def load(self, name, seed):
        generator = torch.Generator().manual_seed(seed)
        weights = [(torch.randn(a, generator=generator), torch.randn(b, generator=generator)) for a, b in self.shapes]
        self.adapters[name] = {
            "weights": [(a.to(self.device), b.to(self.device)) for a, b in weights],
            "scaling": 0.5 + 0.1 * seed,
        }


class Server:
    def __init__(self, model, store, device):
        self.model = model
        self.store = store
        self.x = torch.zeros(2, 16, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(stream):
            model(self.x)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.y = model(self.x)

    def activate(self, name):
        adapter = self.store.adapters[name]
        for layer, (a, b) in zip(self.model.layers, adapter["weights"]):
            layer.a = a
            layer.b = b
            layer.scaling = adapter["scaling"]

    def execute(self, requests):
        current = None
        for name, x in requests:
            if name != current:
                self.activate(name)
                current = name
            self.x.copy_(x)
            self.graph.replay()
            print(f"{name}: {self.y.norm()}")


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = Backbone().to(device).eval()
    store = AdapterStore(model, device)
    for seed, name in enumerate(("plain", "polite", "terse")):
        store.load(name, seed)
    server = Server(model, store, device)
    inputs = torch.randn(4, 2, 16, device=device)
    server.execute(zip(("plain", "polite", "polite", "terse"), inputs))


if __name__ == "__main__":
    main()
