"""Serves one base model with exchangeable low-rank adapters."""

import torch
import torch.nn.functional as F
from torch import nn


class AdaptedLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int, rank: int):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.down = nn.Parameter(torch.zeros(rank, inputs), requires_grad=False)
        self.up = nn.Parameter(torch.zeros(outputs, rank), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


def backbone(width: int, depth: int, rank: int) -> nn.Sequential:
    layers = []
    for _ in range(depth):
        layers += [AdaptedLinear(width, width, rank), nn.SiLU()]
    return nn.Sequential(*layers)


class AdapterHost:
    def __init__(self, model: nn.Module, rows: int, width: int, device):
        self.model = model
        self.current: str | None = None
        self.library: dict[str, dict[str, torch.Tensor]] = {}
        self.x = torch.zeros(rows, width, device=device)
        self._capture(device)

    def _capture(self, device) -> None:
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.y = self.model(self.x)

    def register(self, name: str, weights: dict[str, torch.Tensor]) -> None:
        self.library[name] = weights

    def select(self, name: str) -> None:
        if name == self.current:
            return
        weights = self.library[name]
        for path, module in self.model.named_modules():
            if isinstance(module, AdaptedLinear):
                module.down = nn.Parameter(weights[f"{path}.down"], requires_grad=False)
                module.up = nn.Parameter(weights[f"{path}.up"], requires_grad=False)
        self.current = name

    def answer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.select(name)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


def random_adapter(model: nn.Module, device) -> dict[str, torch.Tensor]:
    wanted = (name for name, _ in model.named_parameters() if name.endswith((".down", ".up")))
    sizes = dict(model.named_parameters())
    return {name: 0.1 * torch.randn(sizes[name].shape, device=device) for name in wanted}


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = backbone(16, 3, rank=4).to(device).requires_grad_(False)
    host = AdapterHost(model, rows=4, width=16, device=device)
    for name in ("legal", "medical", "code"):
        host.register(name, random_adapter(model, device))
    order = ["legal", "legal", "code", "medical", "code"]
    answers = [host.answer(name, torch.randn(4, 16, device=device)) for name in order]
    print(torch.stack(answers).shape)


if __name__ == "__main__":
    main()
