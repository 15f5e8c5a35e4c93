"""LoRA adapters: the server sets the active adapter between requests."""
import math

import torch
import torch.nn as nn

import graphsafe


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base, self.rank = base, rank
        self.lora_A, self.lora_B = nn.ModuleDict(), nn.ModuleDict()
        self.scaling = {}
        self.active = None

    def add_adapter(self, name, alpha):
        dev = self.base.weight.device
        a = nn.Linear(self.base.in_features, self.rank, bias=False, device=dev)
        b = nn.Linear(self.rank, self.base.out_features, bias=False, device=dev)
        nn.init.kaiming_uniform_(a.weight, a=math.sqrt(5))
        nn.init.normal_(b.weight, std=0.02)
        self.lora_A[name], self.lora_B[name] = a, b
        self.scaling[name] = alpha / self.rank

    def forward(self, x):
        y = self.base(x)
        if self.active in self.lora_A:
            y = y + self.lora_B[self.active](self.lora_A[self.active](x)) * self.scaling[self.active]
        return y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = LoraLinear(nn.Linear(16, 32))
        self.down = LoraLinear(nn.Linear(32, 16))

    def set_adapter(self, name):
        for m in self.modules():
            if isinstance(m, LoraLinear):
                m.active = name

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def build(device):
    torch.manual_seed(9)
    model = Model().to(device)
    for name, alpha in (("en", 8), ("de", 16), ("fr", 4)):
        model.up.add_adapter(name, alpha)
        model.down.add_adapter(name, alpha)
    model.set_adapter("en")
    model.eval().requires_grad_(False)
    x = torch.randn(3, 16, device=device)

    def refresh(args, kwargs, k):
        model.set_adapter(("en", "de", "fr")[k % 3])
        args[0].copy_(torch.randn(3, 16))

    return graphsafe.Step(model, (x,), refresh=refresh)
