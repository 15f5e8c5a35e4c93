"""Inference layers that pack gate and up projection after each load, into the same memory; the packing is lazy at first."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class GatedMlp(nn.Module):
    def __init__(self, width=32, hidden=80):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, hidden), nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.packed = None
        self.register_load_state_dict_post_hook(lambda module, incompatible: module.pack())

    @torch.no_grad()
    def pack(self):
        parts = [self.gate.weight, self.up.weight], [self.gate.bias, self.up.bias]
        if self.packed is None:
            self.packed = [torch.cat(p) for p in parts]
        else:
            for target, p in zip(self.packed, parts):
                torch.cat(p, out=target)

    def forward(self, x):
        if self.packed is None:
            self.pack()
        a, b = F.linear(x, *self.packed).chunk(2, -1)
        return x + self.down(F.silu(a) * b)


def build(device):
    net = nn.Sequential(GatedMlp(), nn.LayerNorm(32), GatedMlp()).to(device).requires_grad_(False)
    x = torch.randn(6, 32, device=device)
    shapes = {name: value.shape for name, value in net.state_dict().items()}

    def load():
        torch.manual_seed(21)
        net.load_state_dict({name: torch.randn(shape) / 5 for name, shape in shapes.items()})

    return graphsafe.Step(net, (x,), {}, refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(6, 32)), events={"load": load})
