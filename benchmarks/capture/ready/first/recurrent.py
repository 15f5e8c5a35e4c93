"""Recurrent cells and running states."""
from dataclasses import dataclass, replace

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, device, dim=16):
        super().__init__()
        self.cell = nn.GRUCell(dim, dim)
        self.h = torch.zeros(4, dim, device=device)

    @torch.no_grad()
    def forward(self, x):
        self.h = self.cell(x, self.h)
        return self.h


class CellInPlace(Cell):
    @torch.no_grad()
    def forward(self, x):
        self.h.copy_(self.cell(x, self.h))
        return self.h * 1.0


class RunningMoments:
    def __init__(self, dim, device):
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)

    def normalize(self, x):
        self.mean = torch.lerp(self.mean, x.mean(0), 0.1)
        self.var = torch.lerp(self.var, x.var(0), 0.1)
        return (x - self.mean) * torch.rsqrt(self.var + 1e-5)


def advance_state(x, state):
    state["pos"] = state["pos"] + x * 0.1
    return state["pos"].sin()


def advance_state_(x, state):
    state["pos"].add_(x, alpha=0.1)
    return state["pos"].sin()


class PingPong:
    def __init__(self, device, n=32):
        self.front = torch.zeros(n, device=device)
        self.back = torch.zeros(n, device=device)

    def step(self, source):
        torch.add(self.front.roll(1), source, alpha=0.5, out=self.back)
        self.front, self.back = self.back, self.front
        return self.front.clone()


class PingPongCopy(PingPong):
    def step(self, source):
        torch.add(self.front.roll(1), source, alpha=0.5, out=self.back)
        self.front.copy_(self.back)
        return self.front.clone()


class DataSgd:
    def __init__(self, device):
        self.p = nn.Parameter(torch.randn(16, device=device))

    def __call__(self, target):
        loss = (self.p - target).square().mean()
        (g,) = torch.autograd.grad(loss, self.p)
        self.p.data = self.p.data - 0.1 * g
        return loss


class Stack(nn.Module):
    def __init__(self, device, depth=3, dim=8):
        super().__init__()
        self.cells = nn.ModuleList(nn.Linear(2 * dim, dim) for _ in range(depth))
        self.states = [torch.zeros(4, dim, device=device) for _ in range(depth)]

    @torch.no_grad()
    def forward(self, x):
        for i, cell in enumerate(self.cells):
            x = torch.tanh(cell(torch.cat([x, self.states[i]], -1)))
            self.states[i] = x
        return x


@dataclass(frozen=True)
class Body:
    x: torch.Tensor
    v: torch.Tensor


class Orbit:
    def __init__(self, device):
        self.body = Body(torch.ones(8, 2, device=device), torch.zeros(8, 2, device=device))

    def kick(self, force):
        v = self.body.v + 0.05 * (force - self.body.x)
        self.body = replace(self.body, x=self.body.x + 0.05 * v, v=v)
        return self.body.x


class OrbitInPlace(Orbit):
    def kick(self, force):
        b = self.body
        b.v.add_(force - b.x, alpha=0.05)
        b.x.add_(b.v, alpha=0.05)
        return b.x.clone()


def heavy_ball(device, dim=16):
    vel = torch.zeros(dim, device=device)

    def step(grad):
        nonlocal vel
        vel = 0.9 * vel + grad
        return -0.01 * vel

    return step


def heavy_ball_(device, dim=16):
    vel = torch.zeros(dim, device=device)

    def step(grad):
        vel.mul_(0.9).add_(grad)
        return -0.01 * vel

    return step


class Slots:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


class Filter:
    def __init__(self, device):
        self.z = Slots(torch.zeros(8, device=device), torch.zeros(8, device=device))

    def __call__(self, u):
        y = u + self.z.left
        setattr(self.z, "left", 0.5 * u - 0.2 * y + self.z.right)
        self.z.right = 0.25 * u
        return y


class TextLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(32, 16)
        self.lstm = nn.LSTM(16, 16, num_layers=2, batch_first=True)

    def forward(self, ids):
        out, (h, c) = self.lstm(self.emb(ids))
        return out[:, -1] + h[-1] - c[0]


class Carry(nn.Module):
    """An LSTM whose state goes in and out through static buffers."""

    def __init__(self, device):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.register_buffer("h", torch.zeros(1, 4, 8, device=device))
        self.register_buffer("c", torch.zeros(1, 4, 8, device=device))

    @torch.no_grad()
    def forward(self, x):
        out, (h, c) = self.lstm(x, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return out


def _x(device, *shape):
    return torch.randn(*shape, device=device)


def build_gru_cell(device):
    return Cell(device).to(device), (_x(device, 4, 16),)


def build_gru_cell_copy(device):
    return CellInPlace(device).to(device), (_x(device, 4, 16),)


def build_running_moments(device):
    return RunningMoments(8, device).normalize, (_x(device, 16, 8),)


def build_dict_state(device):
    return advance_state, (_x(device, 8), {"pos": torch.zeros(8, device=device)})


def build_dict_state_add(device):
    return advance_state_, (_x(device, 8), {"pos": torch.zeros(8, device=device)})


def build_ping_pong(device):
    return PingPong(device).step, (_x(device, 32),)


def build_ping_pong_copy(device):
    return PingPongCopy(device).step, (_x(device, 32),)


def build_data_sgd(device):
    return DataSgd(device), (_x(device, 16),)


def build_stack(device):
    return Stack(device).to(device), (_x(device, 4, 8),)


def build_orbit(device):
    return Orbit(device).kick, (_x(device, 8, 2),)


def build_orbit_add(device):
    return OrbitInPlace(device).kick, (_x(device, 8, 2),)


def build_heavy_ball(device):
    return heavy_ball(device), (_x(device, 16),)


def build_heavy_ball_mul(device):
    return heavy_ball_(device), (_x(device, 16),)


def build_biquad(device):
    return Filter(device), (_x(device, 8),)


def build_text_lstm(device):
    return TextLstm().to(device).eval(), (torch.randint(0, 32, (2, 6), device=device),)


def build_carry(device):
    return Carry(device).to(device), (_x(device, 3, 4, 8),)
