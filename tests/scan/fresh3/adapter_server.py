"""Serve one base model with several low-rank adapters, written into the model's own buffers."""
import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.register_buffer("a", torch.zeros(rank, dim))
        self.register_buffer("b", torch.zeros(dim, rank))
        self.register_buffer("scaling", torch.ones(()))

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
        self.current = None
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
        if name == self.current:
            return
        adapter = self.store.adapters[name]
        for layer, (a, b) in zip(self.model.layers, adapter["weights"]):
            layer.a.copy_(a)
            layer.b.copy_(b)
            layer.scaling.fill_(adapter["scaling"])
        self.current = name

    def execute(self, requests, results):
        for number, (name, x) in enumerate(requests):
            self.activate(name)
            self.x.copy_(x)
            self.graph.replay()
            results[number].copy_(self.y)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = Backbone().to(device).eval()
    store = AdapterStore(model, device)
    names = ("plain", "polite", "polite", "terse")
    for seed, name in enumerate(sorted(set(names))):
        store.load(name, seed)
    server = Server(model, store, device)
    inputs = torch.randn(len(names), 2, 16, device=device)
    results = torch.zeros(len(names), 2, 4, device=device)
    server.execute(zip(names, inputs), results)
    for name, norm in zip(names, results.flatten(1).norm(dim=1).tolist()):
        print(f"{name}: {norm:.3f}")


if __name__ == "__main__":
    main()
