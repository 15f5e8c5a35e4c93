"""One base model, many low-rank adapters: the selected adapter is copied into the layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class SlotLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.register_buffer("down", torch.zeros(rank, inputs))
        self.register_buffer("up", torch.zeros(outputs, rank))
        self.register_buffer("strength", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.strength * F.linear(F.linear(x, self.down), self.up)

    def place(self, down: torch.Tensor, up: torch.Tensor, strength: float) -> None:
        self.down.copy_(down)
        self.up.copy_(up)
        self.strength.fill_(strength)

    def clear(self) -> None:
        self.strength.zero_()


class Adapter:
    def __init__(self, model: nn.Module, strength: float, device):
        self.strength = strength
        self.parts = {
            name: (0.1 * torch.randn_like(layer.down), 0.1 * torch.randn_like(layer.up))
            for name, layer in slot_layers(model)
        }


def slot_layers(model: nn.Module):
    return [(name, m) for name, m in model.named_modules() if isinstance(m, SlotLinear)]


class Host:
    def __init__(self, model: nn.Module, rows: int, width: int, device):
        self.model = model
        self.layers = slot_layers(model)
        self.library: dict[str, Adapter] = {}
        self.current: str | None = None
        self.x = torch.zeros(rows, width, device=device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(self.x)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = model(self.x)

    def select(self, name: str | None) -> None:
        if name == self.current:
            return
        for path, layer in self.layers:
            if name is None:
                layer.clear()
            else:
                adapter = self.library[name]
                layer.place(*adapter.parts[path], adapter.strength)
        self.current = name

    def answer(self, name: str | None, x: torch.Tensor) -> torch.Tensor:
        self.select(name)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


@torch.no_grad()
def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = nn.Sequential(SlotLinear(16, 16, 4), nn.SiLU(), SlotLinear(16, 16, 4)).to(device)
    host = Host(model, rows=4, width=16, device=device)
    for i, name in enumerate(("legal", "medical", "code")):
        host.library[name] = Adapter(model, 0.5 + i, device)
    order = ["legal", None, "code", "code", "medical"]
    answers = [host.answer(name, torch.randn(4, 16, device=device)) for name in order]
    print(torch.stack(answers).norm(dim=-1).tolist())


if __name__ == "__main__":
    main()
