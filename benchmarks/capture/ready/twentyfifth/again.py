"""Events that an engine or trainer fires again and again: the end of an epoch, an episode, another adapter."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

D, N = 8, 8


class Trainer:
    def __init__(self, device, tensor_lr=False, lr=0.05):
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(D, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
        if tensor_lr:
            rate = torch.tensor(1e-3, device=device)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, capturable=True)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.epoch = 0
        self.device = device

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def target(self, end_of_epoch):
        def refresh(args, kwargs, k):
            args[0].copy_(torch.randn(N, D))
            args[1].copy_(torch.randint(0, 3, (N,)))

        args = (torch.randn(N, D, device=self.device), torch.randint(0, 3, (N,), device=self.device))
        return graphsafe.Step(self.step, args, refresh=refresh, events={"end of epoch": end_of_epoch})


def build_epoch_step_lr(device):
    t = Trainer(device)
    return t.target(torch.optim.lr_scheduler.StepLR(t.optimizer, step_size=3).step)


def build_epoch_cosine(device):
    t = Trainer(device)
    return t.target(torch.optim.lr_scheduler.CosineAnnealingLR(t.optimizer, T_max=30).step)


def build_epoch_tensor(device):
    t = Trainer(device, tensor_lr=True)
    return t.target(torch.optim.lr_scheduler.StepLR(t.optimizer, step_size=3).step)


def build_epoch_unfreeze(device):
    t = Trainer(device)
    t.model[0].requires_grad_(False)

    def end_of_epoch():
        t.epoch += 1
        if t.epoch == 2:
            t.model[0].requires_grad_(True)

    return t.target(end_of_epoch)


def build_epoch_eval(device):
    t = Trainer(device)
    held_out = torch.randn(12, D, device=device)
    scores = []

    def end_of_epoch():
        t.model.eval()
        with torch.no_grad():
            scores.append(t.model(held_out).mean().item())
        t.model.train()

    return t.target(end_of_epoch)


class Prefixes:
    def __init__(self, device, room=8, used=6):
        self.device = device
        self.pool = torch.zeros(room, D, device=device)
        self.used = 0
        self.pick = torch.zeros(2, dtype=torch.long, device=device)
        self.layer = nn.Linear(D, D).to(device).requires_grad_(False)
        for _ in range(used):
            self.register()

    def register(self):
        if self.used == len(self.pool):
            self.pool = torch.cat([self.pool, torch.zeros_like(self.pool)])
        self.pool[self.used].copy_(torch.randn(D))
        self.pick.fill_(self.used)
        self.used += 1

    def step(self, x):
        return self.layer(x) + self.pool[self.pick]


def build_prefix_thrice(device):
    p = Prefixes(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, D))

    events = {"first prefix": p.register, "second prefix": p.register, "third prefix": p.register}
    return graphsafe.Step(p.step, (torch.randn(2, D, device=device),), refresh=refresh, events=events)


class Env:
    """Episodes: reset puts the environment back; every fourth episode the target is exchanged."""

    def __init__(self, device):
        self.state = torch.zeros(4, D, device=device)
        self.mean = torch.zeros(D, device=device)
        self.count = torch.ones((), device=device)
        self.q = nn.Linear(D, D).to(device).requires_grad_(False)
        self.target = nn.Linear(D, D).to(device).requires_grad_(False)
        self.episodes = 0

    def step(self, x):
        self.state.mul_(0.9).add_(x)
        self.count.add_(1)
        self.mean.add_((self.state.mean(0) - self.mean) / self.count)
        clean = self.state - self.mean
        return self.q(clean) - self.target(clean)

    def reset(self):
        self.state.zero_()

    def reset_and_assign(self):
        self.state.zero_()
        self.episodes += 1
        if self.episodes % 10 == 0:
            self.target.weight.data = self.q.weight.data.clone()


def env_step(env, reset, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, D))

    return graphsafe.Step(env.step, (torch.randn(4, D, device=device),), refresh=refresh, reset=reset)


def build_episode_assign(device):
    env = Env(device)
    return env_step(env, env.reset_and_assign, device)


def build_episode_keep(device):
    env = Env(device)
    return env_step(env, env.reset, device)


class Profile(nn.Module):
    """As in after.py, but reset also clears the profile."""

    def __init__(self, at=8):
        super().__init__()
        self.mix = nn.Linear(D, D)
        self.register_buffer("profile", torch.zeros(1, D))
        self.register_buffer("count", torch.zeros(1))
        self.at = at

    def forward(self, x):
        self.count.add_(1)
        self.profile.copy_(torch.where(self.count == self.at, self.mix(x).abs(), self.profile))
        return torch.relu(self.mix(x).abs() - self.profile)

    def restart(self):
        self.count.zero_()
        self.profile.zero_()


def build_profile_cleared(device):
    model = Profile().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, D))

    return graphsafe.Step(model, (torch.randn(1, D, device=device),), refresh=refresh, reset=model.restart)
