import torch
import torch.nn as nn


class LoraLinear(nn.Linear):
    def __init__(self, dim_in: int, dim_out: int, rank: int):
        super().__init__(dim_in, dim_out)
        self.register_buffer("a", torch.zeros(rank, dim_in))
        self.register_buffer("b", torch.zeros(dim_out, rank))
        self.register_buffer("gain", torch.ones(()))

    def forward(self, x):
        return super().forward(x) + self.gain * ((x @ self.a.t()) @ self.b.t())


class LoraBank:
    def __init__(self, model: nn.Module):
        self.targets = {n: m for n, m in model.named_modules() if isinstance(m, LoraLinear)}
        self.library = {}

    def add(self, name: str, gain: float):
        self.library[name] = {
            path: (torch.randn_like(m.a) * 0.2, torch.randn_like(m.b) * 0.2, gain) for path, m in self.targets.items()
        }

    @torch.no_grad()
    def use(self, name: str):
        for path, (a, b, gain) in self.library[name].items():
            module = self.targets[path]
            module.a.copy_(a)
            module.b.copy_(b)
            module.gain.fill_(gain)
