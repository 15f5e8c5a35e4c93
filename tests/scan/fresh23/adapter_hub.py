"""One base model, many LoRA adapters. The decode step is a CUDA graph; adapters are switched between requests."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Adapter:
    a: torch.Tensor  # [rank, in]
    b: torch.Tensor  # [out, rank]
    alpha: float

    @property
    def rank(self):
        return self.a.shape[0]

    @classmethod
    def random(cls, dim, rank, alpha, device):
        return cls(torch.randn(rank, dim, device=device) / math.sqrt(dim), torch.randn(dim, rank, device=device), alpha)


class AdaptedLinear:
    def __init__(self, dim, style: Adapter, device):
        self.weight = torch.randn(dim, dim, device=device) / math.sqrt(dim)
        self.style = style
        self.folded = None
        self.a = torch.zeros(4, dim, device=device)
        self.b = torch.zeros(dim, 4, device=device)
        self.scaling = 0.0

    def __call__(self, x):
        weight = self.folded if self.folded is not None else self.fused()
        y = F.linear(x, weight)
        return y + F.linear(F.linear(x, self.a), self.b) * self.scaling

    def fused(self):
        return self.weight + self.style.b @ self.style.a

    def fold(self):
        self.folded = self.fused()

    def use(self, adapter: Adapter):
        self.a.copy_(adapter.a)
        self.b = adapter.b
        self.scaling = adapter.alpha / adapter.rank

    def restyle(self, strength):
        self.style.b.mul_(strength)


class Hub:
    def __init__(self, dim, depth, device):
        self.device = device
        self.style = [Adapter.random(dim, 2, 1.0, device) for _ in range(depth)]
        self.linears = [AdaptedLinear(dim, s, device) for s in self.style]
        self.adapters: dict[str, list[Adapter]] = {}
        self.x = torch.zeros(1, dim, device=device)
        self.norms: list[float] = []

    def register(self, name, alpha):
        dim = self.x.shape[1]
        self.adapters[name] = [Adapter.random(dim, 4, alpha, self.device) for _ in self.linears]

    def _forward(self, x):
        for linear in self.linears:
            x = F.layer_norm(x + torch.tanh(linear(x)), x.shape[-1:])
        return x

    def freeze(self):
        for linear in self.linears:
            linear.fold()
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self._forward(self.x)
            self._forward(self.x)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self._forward(self.x)

    def select(self, name):
        for linear, adapter in zip(self.linears, self.adapters[name]):
            linear.use(adapter)

    def decode(self, x, steps):
        self.x.copy_(x)
        for _ in range(steps):
            self.graph.replay()
            self.x.copy_(self.y)
            self.norms.append(self.y.norm().item())
        return self.y.clone()


def main(device="cuda"):
    torch.manual_seed(11)
    device = torch.device(device)
    hub = Hub(16, 3, device)
    for name, alpha in (("legal", 8.0), ("medical", 16.0), ("poetry", 2.0)):
        hub.register(name, alpha)
    hub.select("legal")
    hub.freeze()
    x = torch.randn(1, 16, device=device)
    for turn, name in enumerate(("legal", "medical", "poetry", "legal")):
        hub.select(name)
        if turn == 2:
            for linear in hub.linears:
                linear.restyle(0.5)
        print(name, hub.decode(x, 5)[0, :4].tolist())
    print(max(hub.norms))


if __name__ == "__main__":
    main()
