"""The sound twins: random numbers choose data, or are drawn on the device, or reach the step by device tensors."""
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from common_a import mlp
from rand_bad import Stack
from sched_bad import Trainer


def build_layerdrop_mask(device):
    """Right: the loop draws which layers to keep and writes the mask into a device tensor that multiplies each residual."""
    net = Stack().to(device)
    x = torch.randn(4, 16, device=device)
    keep = torch.ones(3, device=device)

    def step(x):
        with torch.no_grad():
            for i, block in enumerate(net.blocks):
                x = x + keep[i] * block(x)
            return net.head(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        keep.copy_(torch.tensor([float(random.random() >= 0.01) for _ in range(3)]))

    return graphsafe.Step(step, (x,), refresh=refresh)


def build_epsilon_device(device):
    """Right: epsilon is a device scalar that the loop anneals in place, and the coin and actions are drawn on the device."""
    q = mlp(device)
    obs = torch.randn(8, 16, device=device)
    eps = torch.ones((), device=device)

    def step(obs):
        with torch.no_grad():
            greedy = q(obs).argmax(1)
            other = torch.randint(4, (8,), device=obs.device)
            return torch.where(torch.rand(8, device=obs.device) < eps, other, greedy), q(obs)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        eps.fill_(max(0.05, 1.0 - k / 5000))

    return graphsafe.Step(step, (obs,), refresh=refresh)


def build_mixup_lam(device):
    """Right: numpy's Beta draw reaches the step through a device scalar written in place, and the permutation is a device tensor too."""
    t = Trainer(device)
    lam = torch.ones((), device=device)
    perm = torch.arange(8, device=device)

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        logits = t.model(lam * x + (1 - lam) * x[perm])
        loss = lam * F.cross_entropy(logits, y) + (1 - lam) * F.cross_entropy(logits, y[perm])
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        lam.fill_(float(np.random.beta(0.2, 0.2)) if random.random() < 0.5 else 1.0)
        perm.copy_(torch.randperm(8))

    return t.target(refresh, step)


def build_augment_on_host(device):
    """Right: seldom augmentation changes the batch on the host before it is copied into the static input."""
    t = Trainer(device)
    rng = np.random.default_rng(3)

    def refresh(args, kwargs, k):
        x = torch.randn(8, 16)
        if rng.random() < 0.01:
            x = x.flip(1)
        if rng.random() < 0.3 and random.random() > 0.99:
            x[:, :4] = 0
        args[0].copy_(x)
        args[1].copy_(torch.randint(4, (8,)))

    return t.target(refresh)


def build_scheduled_device(device):
    """Right: scheduled sampling draws its coins on the device and selects with where, at a rate held in a device tensor."""
    cell = nn.GRUCell(16, 16).to(device)
    emb = nn.Embedding(30, 16).to(device)
    out = nn.Linear(16, 30).to(device)
    tokens = torch.randint(30, (4, 4), device=device)
    rate = torch.zeros((), device=device)

    def step(tokens):
        with torch.no_grad():
            h = torch.zeros(4, 16, device=tokens.device)
            feed = tokens[0]
            losses = []
            for i in range(3):
                h = cell(emb(feed), h)
                logits = out(h)
                losses.append(F.cross_entropy(logits, tokens[i + 1]))
                own = torch.rand(4, device=tokens.device) < rate
                feed = torch.where(own, logits.argmax(-1), tokens[i + 1])
            return torch.stack(losses).mean()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(30, (4, 4)))
        rate.fill_(min(0.25, k * 1e-4))

    return graphsafe.Step(step, (tokens,), refresh=refresh)


def build_dropout_train(device):
    """Right: dropout draws from the device generator, which a graph advances, and the loop only logs seldom by a host coin."""
    t = Trainer(device, drop=0.2)
    log = []

    def refresh(args, kwargs, k):
        t.data(args)
        if random.random() < 0.02:
            log.append(float(k))
            del log[:-5]

    return t.target(refresh)
