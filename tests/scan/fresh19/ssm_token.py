import torch
import torch.nn.functional as F
from torch import nn


class SelectiveState(nn.Module):
    """One-token step of a selective state space layer: short convolution, then the scan."""

    def __init__(self, rows, dim, states=4, taps=4):
        super().__init__()
        self.inp = nn.Linear(dim, 2 * dim)
        self.conv = nn.Parameter(torch.randn(dim, taps) * 0.3)
        self.dt = nn.Linear(dim, dim)
        self.bc = nn.Linear(dim, 2 * states)
        self.a_log = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).expand(dim, states).clone())
        self.skip = nn.Parameter(torch.ones(dim))
        self.out = nn.Linear(dim, dim)
        self.register_buffer("line", torch.zeros(rows, dim, taps))
        self.register_buffer("h", torch.zeros(rows, dim, states))

    def forward(self, x, fresh):
        keep = (~fresh).to(x.dtype)[:, None, None]
        u, gate = self.inp(x).chunk(2, -1)
        self.line.mul_(keep)
        self.line.copy_(torch.cat([self.line[..., 1:], u[..., None]], -1))
        u = F.silu((self.line * self.conv).sum(-1))
        dt = F.softplus(self.dt(u))
        b, c = self.bc(u).chunk(2, -1)
        decay = torch.exp(-dt[..., None] * self.a_log.exp())
        self.h.mul_(keep).mul_(decay).add_(dt[..., None] * u[..., None] * b[:, None])
        y = (self.h * c[:, None]).sum(-1) + self.skip * u
        return x + self.out(y * F.silu(gate))


class TwoLayers(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.layers = nn.ModuleList([SelectiveState(rows, dim), SelectiveState(rows, dim, states=6)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, fresh):
        for layer in self.layers:
            x = layer(x, fresh)
        return self.norm(x)


def build(device):
    torch.manual_seed(11)
    net = TwoLayers(4, 8).to(device).requires_grad_(False)
    fresh = torch.tensor([False, True, False, False], device=device)
    return net, (torch.randn(4, 8, device=device), fresh)
