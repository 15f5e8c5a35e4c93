"""A bank of Kalman filters whose 2x2 inverse is written out."""
from dataclasses import dataclass

import torch


@dataclass
class Model:
    f: torch.Tensor
    h: torch.Tensor
    q: torch.Tensor
    r: torch.Tensor

    @classmethod
    def constant_velocity(cls, device, dt=0.1):
        f = torch.eye(4, device=device)
        f[0, 2] = f[1, 3] = dt
        h = torch.zeros(2, 4, device=device)
        h[0, 0] = h[1, 1] = 1.0
        return cls(f, h, 0.01 * torch.eye(4, device=device), 0.1 * torch.eye(2, device=device))


class Bank:
    def __init__(self, count, device):
        self.mean = torch.zeros(count, 4, device=device)
        self.cov = torch.eye(4, device=device).repeat(count, 1, 1)


class Gain:
    @staticmethod
    def inverse(s):
        a, b, c, d = s[..., 0, 0], s[..., 0, 1], s[..., 1, 0], s[..., 1, 1]
        adjugate = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2)
        return adjugate / (a * d - b * c)[..., None, None]

    def __call__(self, cov, model):
        s = model.h @ cov @ model.h.t() + model.r
        return cov @ model.h.t() @ self.inverse(s), s


class Tracker:
    def __init__(self, count, device, gain=None):
        self.model = Model.constant_velocity(device)
        self.bank = Bank(count, device)
        self.gain = gain or Gain()
        self.limit = 9.0

    def update(self, seen):
        m, b = self.model, self.bank
        mean = b.mean @ m.f.t()
        cov = m.f @ b.cov @ m.f.t() + m.q
        k, _ = self.gain(cov, m)
        innovation = seen - mean @ m.h.t()
        weight = (innovation.square().sum(-1, keepdim=True) < self.limit).float()
        b.mean.copy_(mean + weight * (k @ innovation.unsqueeze(-1)).squeeze(-1))
        b.cov.copy_(cov - weight.unsqueeze(-1) * (k @ m.h @ cov))
        return b.mean.clone()


def build(device):
    return Tracker(6, device).update, (torch.randn(6, 2, device=device),)
