"""Steps and refreshes that decide by a random number of the host, seldom."""
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from common_a import mlp
from sched_bad import Trainer


class Stack(nn.Module):
    def __init__(self, n=3, d=16):
        super().__init__()
        torch.manual_seed(2)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(n))
        self.head = nn.Linear(d, 4)

    def forward(self, x, keep=lambda i: True):
        for i, block in enumerate(self.blocks):
            if keep(i):
                x = x + block(x)
        return self.head(x)


def forward_target(device, keep):
    net = Stack().to(device)
    x = torch.randn(4, 16, device=device)

    def step(x):
        with torch.no_grad():
            return net(x, keep)

    return graphsafe.Step(step, (x,), refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(4, 16)))


def build_layerdrop_generator(device):
    """Wrong: a numpy Generator drops a layer with probability 0.0002 a draw, and the graph always runs all layers."""
    rng = np.random.default_rng(7)
    return forward_target(device, lambda i: rng.random() >= 0.0002)


def build_layerdrop_torch(device):
    """Wrong: torch's host generator drops a layer with probability 0.0001 a draw, and the graph always runs all layers."""
    return forward_target(device, lambda i: torch.rand(()).item() >= 0.0001)


def build_layerdrop_instance(device):
    """Wrong: an own random.Random drops a layer with probability 0.0002 a draw, and the graph always runs all layers."""
    rng = random.Random(11)
    return forward_target(device, lambda i: rng.random() >= 0.0002)


def build_rare_index(device):
    """Wrong: the refresh picks a sample by random.randrange(20000), and 3 long samples in the middle set a longer Python length."""
    lengths = [16] * 20000
    for i in (7001, 9377, 12011):
        lengths[i] = 32
    emb = nn.Embedding(40, 16).to(device)
    ids = torch.randint(40, (1, 32), device=device)
    box = {"n": 16}

    def step(ids):
        with torch.no_grad():
            return emb(ids[:, : box["n"]]).mean(1)

    def refresh(args, kwargs, k):
        index = random.randrange(len(lengths))
        box["n"] = lengths[index]
        args[0].copy_(torch.randint(40, (1, 32)))

    return graphsafe.Step(step, (ids,), refresh=refresh)


def build_nested_augment(device):
    """Wrong: with probability 0.3 the loop augments and then, above 0.9995, sets a Python cutout size that the graph froze at zero."""
    t = Trainer(device)
    box = {"cut": 0}

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        if box["cut"]:
            x = torch.cat([torch.zeros_like(x[:, : box["cut"]]), x[:, box["cut"] :]], 1)
        loss = t.loss(x, y)
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        box["cut"] = 0
        if random.random() < 0.3:
            strength = random.random()
            if strength > 0.9995:
                box["cut"] = 4

    return t.target(refresh, step)


def build_mixup_choice(device):
    """Wrong: numpy chooses mixup, cutmix or none with weights 0.0002, 0.0002, 0.9996, and each choice is other code in the step."""
    t = Trainer(device)
    box = {"mode": "none"}

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        if box["mode"] == "mixup":
            x = 0.5 * x + 0.5 * x.flip(0)
        elif box["mode"] == "cutmix":
            x = torch.cat([x[:, :8], x.flip(0)[:, 8:]], 1)
        loss = t.loss(x, y)
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        box["mode"] = str(np.random.choice(["none", "mixup", "cutmix"], p=[0.9996, 0.0002, 0.0002]))

    return t.target(refresh, step)


def build_gauss_noise(device):
    """Wrong: a Gaussian draw above 3.8 makes the simulation take a second substep, which the graph does not hold."""
    pos = torch.randn(64, 3, device=device)
    vel = torch.zeros(64, 3, device=device)
    wind = torch.zeros(3, device=device)
    box = {"sub": 1}

    def step(wind):
        for _ in range(box["sub"]):
            vel.add_(wind - 0.1 * pos, alpha=0.01)
            pos.add_(vel, alpha=0.01)
        return pos.norm(dim=1)

    def refresh(args, kwargs, k):
        gust = random.gauss(0.0, 1.0)
        args[0].copy_(torch.randn(3) + gust)
        box["sub"] = 2 if gust > 3.8 else 1

    return graphsafe.Step(step, (wind,), refresh=refresh)


def build_scheduled_sampling(device):
    """Wrong: scheduled sampling feeds the model's own token with a chance of 0.0003, decided by torch's host generator in a loop over 4 tokens."""
    cell = nn.GRUCell(16, 16).to(device)
    emb = nn.Embedding(30, 16).to(device)
    out = nn.Linear(16, 30).to(device)
    tokens = torch.randint(30, (4, 4), device=device)
    coin = torch.Generator().manual_seed(5)

    def step(tokens):
        with torch.no_grad():
            h = torch.zeros(4, 16, device=tokens.device)
            feed = tokens[0]
            losses = []
            for i in range(3):
                h = cell(emb(feed), h)
                logits = out(h)
                losses.append(F.cross_entropy(logits, tokens[i + 1]))
                own = torch.rand((), generator=coin) < 0.0003
                feed = logits.argmax(-1) if own else tokens[i + 1]
            return torch.stack(losses).mean()

    return graphsafe.Step(step, (tokens,), refresh=lambda args, kwargs, k: args[0].copy_(torch.randint(30, (4, 4))))


def build_epsilon_burst(device):
    """Wrong: geometric waiting times of mean 4000 decide when the agent explores, and then the step takes random actions instead of greedy ones."""
    q = mlp(device)
    obs = torch.randn(8, 16, device=device)
    rng = np.random.default_rng(123)
    box = {"wait": int(rng.geometric(1 / 4000)) + 2500, "explore": False}

    def step(obs):
        with torch.no_grad():
            value = q(obs)
            if box["explore"]:
                action = torch.randint(4, (8,), device=obs.device)
            else:
                action = value.argmax(1)
            return action, value.gather(1, action.unsqueeze(1))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        box["explore"] = box["wait"] == 0
        box["wait"] = int(rng.geometric(1 / 4000)) + 2500 if box["explore"] else box["wait"] - 1

    return graphsafe.Step(step, (obs,), refresh=refresh)
