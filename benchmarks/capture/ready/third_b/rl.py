"""Policy gradient and rollout steps."""
import math
from collections import deque
from contextlib import nullcontext

import torch
from torch import nn
from torch.distributions import Normal


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


def pinned(shape, device):
    return torch.zeros(shape, pin_memory=device.type == "cuda")


class AdvantageLane:
    def __init__(self, device, dim=256):
        self.w = torch.randn(dim, dim, device=device) / math.sqrt(dim)
        self.out = torch.randn(dim, 1, device=device) / math.sqrt(dim)
        self.value = torch.zeros(128, device=device)
        self.side = lane(device)

    def __call__(self, obs, reward):
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with on(self.side):
            h = obs
            for _ in range(10):
                h = torch.tanh(h @ self.w)
            self.value.copy_((h @ self.out).squeeze(-1) * 4)
        advantage = reward - self.value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
        return advantage, self.value.clone()


def build_advantage_lane(device):
    return AdvantageLane(device), (torch.randn(128, 256, device=device), torch.randn(128, device=device))


class AdaptiveKL:
    def __init__(self, device, goal=0.3):
        self.goal = goal
        self.beta = 0.2
        self.last_kl = pinned(1, device)

    def __call__(self, new, old, advantage):
        last = float(self.last_kl[0])
        if last > 1.5 * self.goal:
            self.beta = min(self.beta * 1.5, 20.0)
        elif last < self.goal / 1.5:
            self.beta = max(self.beta / 1.5, 0.01)
        p, q = torch.log_softmax(new, dim=-1), torch.log_softmax(old, dim=-1)
        kl = (q.exp() * (q - p)).sum(dim=-1).mean()
        self.last_kl.copy_(kl.view(1), non_blocking=True)
        return self.beta * kl - ((p - q).exp()[:, 0] * advantage).mean()


def build_adaptive_kl(device):
    args = (torch.randn(2, 3, device=device) / 2, torch.randn(2, 3, device=device) / 2, torch.randn(2, device=device))
    return AdaptiveKL(device), args


class GaussianActor(nn.Module):
    def __init__(self, obs=12, act=4):
        super().__init__()
        self.mean = nn.Linear(obs, act)
        self.log_std = nn.Parameter(torch.full((act,), -0.5))

    def spread(self, mean):
        return self.log_std.exp().expand_as(mean)


class Exploring(GaussianActor):
    @torch.no_grad()
    def forward(self, obs):
        mean = self.mean(obs)
        action = torch.normal(mean, self.spread(mean))
        return action, (action - mean).square().sum(dim=-1)


class Squashed(GaussianActor):
    @torch.no_grad()
    def forward(self, obs):
        mean = self.mean(obs)
        dist = Normal(mean, self.spread(mean), validate_args=False)
        raw = dist.rsample()
        action = torch.tanh(raw)
        return action, dist.log_prob(raw).sum(dim=-1) - torch.log(1.0 - action.square() + 1e-6).sum(dim=-1)


def build_exploring_actor(device):
    return Exploring().to(device), (torch.randn(8, 12, device=device),)


def build_squashed_actor(device):
    return Squashed().to(device), (torch.randn(8, 12, device=device),)


class FrameStack(nn.Module):
    def __init__(self, device, dim=16, frames=3):
        super().__init__()
        self.encode = nn.Linear(dim, 8, device=device)
        self.head = nn.Linear(8 * frames, 5, device=device)
        self.recent = deque([torch.zeros(2, 8, device=device)] * frames, maxlen=frames)

    @torch.no_grad()
    def forward(self, frame):
        feature = torch.relu(self.encode(frame))
        self.recent.append(feature)
        return self.head(torch.cat(list(self.recent), dim=-1))


def build_frame_stack(device):
    return FrameStack(device), (torch.randn(2, 16, device=device),)


class RunningNormaliser:
    def __init__(self, device, dim=8):
        self.mean = torch.zeros(dim, device=device)
        self.count = 1e-4

    def __call__(self, obs):
        n = obs.shape[0]
        self.count += n
        self.mean.add_((obs.mean(dim=0) - self.mean) * (n / self.count))
        return obs - self.mean, self.mean.clone()


def build_running_normaliser(device):
    return RunningNormaliser(device), (torch.randn(4, 8, device=device),)


class DelayedBaseline:
    """Yesterday's return travels over the host ring that the logger also reads."""

    def __init__(self, device):
        self.ring = pinned(4, device)
        self.baseline = torch.zeros(4, device=device)
        self.average = torch.zeros(4, device=device)

    def __call__(self, reward):
        self.baseline.copy_(self.ring, non_blocking=True)
        total = reward.sum(dim=-1)
        self.average.lerp_(total, 0.2)
        self.ring.copy_(self.average, non_blocking=True)
        return total - self.baseline


def build_delayed_baseline(device):
    return DelayedBaseline(device), (torch.randn(4, 6, device=device),)


class TemporalDifference(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.value = nn.Linear(dim, 1)
        self.register_buffer("previous", torch.zeros(6))

    @torch.no_grad()
    def forward(self, obs, reward):
        value = self.value(obs).squeeze(-1)
        error = reward + 0.97 * value - self.previous
        self.previous.copy_(value)
        return error


def build_temporal_difference(device):
    return TemporalDifference().to(device), (torch.randn(6, 12, device=device), torch.randn(6, device=device))


class BlendedTarget:
    def __init__(self, device):
        self.updates = 0
        self.w = torch.randn(8, 8, device=device) / 3
        self.target = self.w.clone()

    def __call__(self, obs):
        share = min(1.0, self.updates / 2)
        self.updates += 1
        self.target.lerp_(torch.tanh(obs.t() @ obs), 0.1)
        return obs @ (share * self.target + (1.0 - share) * self.w)


def build_blended_target(device):
    return BlendedTarget(device), (torch.randn(5, 8, device=device),)
