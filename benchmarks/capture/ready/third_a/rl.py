"""Update and acting steps of small reinforcement learning agents."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def mlp(i, o, device, hidden=24):
    return torch.nn.Sequential(torch.nn.Linear(i, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, o)).to(device)


def descend(loss, net, lr):
    grads = torch.autograd.grad(loss, list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads):
            p.sub_(g, alpha=lr)


def build_backoff_sync(device):
    online, target = mlp(6, 3, device), mlp(6, 3, device)
    updates, due = 0, 6

    def update(obs, reward, nxt):
        nonlocal updates, due
        goal = reward + 0.9 * target(nxt).detach().amax(-1)
        loss = F.mse_loss(online(obs).amax(-1), goal)
        descend(loss, online, 0.1)
        updates += 1
        if updates == due:
            due *= 2
            with torch.no_grad():
                for t, p in zip(target.parameters(), online.parameters()):
                    t.copy_(p)
        return goal, loss.detach()

    return update, (torch.randn(16, 6, device=device), torch.randn(16, device=device), torch.randn(16, 6, device=device))


def build_vector_env_returns(device):
    critic = mlp(6, 1, device)

    @torch.no_grad()
    def returns(obs, reward, info):
        value = critic(obs).squeeze(-1)
        per_env = []
        for i, timed_out in enumerate(info["final"]["timeout"]):
            per_env.append(reward[i] + (0.97 * value[i] if timed_out else 0.0))
        return torch.stack(per_env)

    timeout = np.array([False, True, False, False, True])
    info = {"lives": [3] * 5, "final": {"timeout": timeout, "terminal": ~timeout}}
    return returns, (torch.randn(5, 6, device=device), torch.randn(5, device=device), info)


class Explorer:
    def __init__(self, net, epsilon):
        self.net, self.epsilon = net, epsilon

    @torch.no_grad()
    def act(self, obs):
        q = self.net(obs)
        if random.random() < self.epsilon:
            return torch.randint(0, q.shape[-1], (q.shape[0],), device=q.device), q
        return q.argmax(-1), q


def build_epsilon_greedy(device):
    return Explorer(mlp(6, 5, device), 0.04).act, (torch.randn(32, 6, device=device),)


class RewardScaler:
    def __init__(self, device, window=48):
        self.window = deque(maxlen=window)
        self.var = torch.ones((), device=device)

    def __call__(self, reward):
        self.window.append(reward.shape[0])
        self.var.lerp_(reward.pow(2).mean(), 0.05)
        if len(self.window) < self.window.maxlen:
            return reward
        return reward / (self.var.sqrt() + 1e-3)


def build_reward_scaler(device):
    return RewardScaler(device), (torch.randn(20, device=device) * 4,)


class RecurrentActor(torch.nn.Module):
    ticks = 0
    horizon = 60

    def __init__(self, device):
        super().__init__()
        self.cell = torch.nn.GRUCell(6, 12).to(device)
        self.hidden = torch.zeros(3, 12, device=device)

    @torch.no_grad()
    def forward(self, obs):
        cls = type(self)
        cls.ticks += 1
        if cls.ticks % cls.horizon == 0:
            self.hidden.zero_()
        self.hidden.copy_(self.cell(obs, self.hidden) + 0.9 * self.hidden)
        return self.hidden.clone()


def build_recurrent_actor(device):
    return RecurrentActor(device), (torch.randn(3, 6, device=device),)


class MotionFeatures:
    def __init__(self, net):
        self.net = net
        self.previous = None

    @torch.no_grad()
    def __call__(self, frame):
        previous = frame if self.previous is None else self.previous
        self.previous = frame.clone()
        return self.net(torch.cat([frame, frame - previous], -1))


def build_motion_features(device):
    return MotionFeatures(mlp(12, 4, device)), (torch.randn(7, 6, device=device),)


def build_averaged_policy(device):
    policy = mlp(6, 2, device)
    average = AveragedModel(policy, device=device, multi_avg_fn=get_ema_multi_avg_fn(0.95))

    def update(obs, action):
        loss = F.mse_loss(policy(obs), action)
        descend(loss, policy, 0.2)
        average.update_parameters(policy)
        with torch.no_grad():
            return average(obs), loss.detach()

    return update, (torch.randn(16, 6, device=device), torch.randn(16, 2, device=device))


def build_masked_sync(device):
    online, target = mlp(6, 3, device), mlp(6, 3, device)
    updates = torch.zeros((), dtype=torch.long, device=device)

    def update(obs, reward, nxt):
        goal = reward + 0.9 * target(nxt).detach().amax(-1)
        loss = F.mse_loss(online(obs).amax(-1), goal)
        descend(loss, online, 0.1)
        updates.add_(1)
        with torch.no_grad():
            due = updates % 10 == 0
            for t, p in zip(target.parameters(), online.parameters()):
                t.copy_(torch.where(due, p, t))
        return goal, loss.detach(), updates.clone()

    return update, (torch.randn(16, 6, device=device), torch.randn(16, device=device), torch.randn(16, 6, device=device))


class FrameDelta:
    def __init__(self, net):
        self.net = net

    @torch.no_grad()
    def __call__(self, frame):
        if not hasattr(self, "previous"):
            self.previous = torch.zeros_like(frame)
        out = self.net(torch.cat([frame, frame - self.previous], -1))
        self.previous.copy_(frame)
        return out


def build_frame_delta(device):
    return FrameDelta(mlp(12, 4, device)), (torch.randn(7, 6, device=device),)


class Trainer:
    ramp = (0.02, 0.1, 0.3)

    def __init__(self, net):
        self.net, self.stage, self.seen = net, -1, 0

    def __call__(self, obs, goal):
        self.stage = min(self.stage + 1, len(self.ramp) - 1)
        self.seen += obs.shape[0]
        loss = F.smooth_l1_loss(self.net(obs), goal)
        descend(loss, self.net, self.ramp[self.stage])
        return loss.detach()


def build_ramped_trainer(device):
    return Trainer(mlp(6, 2, device)), (torch.randn(16, 6, device=device), torch.randn(16, 2, device=device))
