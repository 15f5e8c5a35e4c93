"""LoRA adapters by name: the server calls set_adapter between requests (peft style)."""
import torch
import torch.nn as nn

import graphsafe


class LoraLinear(nn.Module):
    def __init__(self, base, r=4, names=("default", "chat", "code"), alpha=8):
        super().__init__()
        self.base = base
        self.lora_A = nn.ModuleDict({n: nn.Linear(base.in_features, r, bias=False) for n in names})
        self.lora_B = nn.ModuleDict({n: nn.Linear(r, base.out_features, bias=False) for n in names})
        self.scaling = alpha / r
        self.active_adapters = ["default"]

    def forward(self, x):
        out = self.base(x)
        for name in self.active_adapters:
            out = out + self.lora_B[name](self.lora_A[name](x)) * self.scaling
        return out


class Model(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.up = LoraLinear(nn.Linear(d, 2 * d))
        self.down = LoraLinear(nn.Linear(2 * d, d))

    def set_adapter(self, name):
        for m in self.modules():
            if isinstance(m, LoraLinear):
                m.active_adapters = [name]

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def build(device, batch=4):
    model = Model().to(device).eval().requires_grad_(False)
    x = torch.randn(batch, 16, device=device)

    def refresh(args, kwargs, k):
        model.set_adapter(["default", "chat", "code"][k % 3])
        args[0].copy_(torch.randn(batch, 16))

    return graphsafe.Step(model, (x,), refresh=refresh)
