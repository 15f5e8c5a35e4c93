"""Vectorised cart-pole with auto-reset and running observation statistics, one actor step per call."""
import torch
from torch import nn


class CartPoleFarm(nn.Module):
    GRAVITY, CART, POLE, HALF, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, envs):
        super().__init__()
        self.register_buffer("state", torch.zeros(envs, 4))
        self.register_buffer("age", torch.zeros(envs))
        self.register_buffer("returns", torch.zeros(envs))
        self.register_buffer("obs_mean", torch.zeros(4))
        self.register_buffer("obs_var", torch.ones(4))

    def physics(self, action):
        x, v, th, om = self.state.unbind(-1)
        force = (2 * action - 1) * self.FORCE
        total = self.CART + self.POLE
        temp = (force + self.POLE * self.HALF * om.square() * th.sin()) / total
        acc = (self.GRAVITY * th.sin() - th.cos() * temp) / (
            self.HALF * (4.0 / 3.0 - self.POLE * th.cos().square() / total)
        )
        cart = temp - self.POLE * self.HALF * acc * th.cos() / total
        return torch.stack([x + self.TAU * v, v + self.TAU * cart, th + self.TAU * om, om + self.TAU * acc], -1)

    def step(self, action, limit):
        nxt = self.physics(action)
        self.age.add_(1)
        fallen = (nxt[:, 0].abs() > 2.4) | (nxt[:, 2].abs() > 0.21) | (self.age > limit)
        fresh = torch.empty_like(nxt).uniform_(-0.05, 0.05)
        self.state.copy_(torch.where(fallen[:, None], fresh, nxt))
        self.returns.add_(1).mul_(~fallen)
        self.age.mul_(~fallen)
        self.obs_mean.lerp_(self.state.mean(0), 0.01)
        self.obs_var.lerp_((self.state - self.obs_mean).square().mean(0), 0.01)
        return fallen

    def normalised(self):
        return (self.state - self.obs_mean) * (self.obs_var + 1e-5).rsqrt()


def build(device):
    torch.manual_seed(0)
    farm = CartPoleFarm(8).to(device)
    actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)

    @torch.no_grad()
    def act(limit, push):
        obs = farm.normalised() + push
        logits = actor(obs)
        noise = -torch.empty_like(logits).exponential_().log()
        action = (logits + noise).argmax(-1)
        done = farm.step(action.float(), limit)
        return obs, action, done

    return act, (torch.full((8,), 30.0, device=device), 0.01 * torch.randn(8, 4, device=device))
