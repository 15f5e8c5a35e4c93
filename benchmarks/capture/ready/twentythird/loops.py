import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def net(device, d=12, out=5):
    return nn.Sequential(nn.Linear(d, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, out)).to(device)


def batch(device):
    return torch.randn(8, 12, device=device), torch.randint(0, 5, (8,), device=device)


def fill(args):
    args[0].copy_(torch.randn(8, 12))
    args[1].copy_(torch.randint(0, 5, (8,)))


class CrossEntropySearch:
    def __init__(self, device):
        self.mean = torch.zeros(16, device=device)
        self.value = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1)).to(device).requires_grad_(False)
        self.best, self.best_score, self.candidate, self.score = None, float("-inf"), None, None

    def propose(self, noise):
        plans = self.mean + 0.5 * noise
        score = self.value(plans).squeeze(-1)
        top = score.topk(4)
        self.candidate = plans[top.indices].mean(0)
        self.score = top.values[0]
        return self.candidate, self.score


def build_best_by_reference(device):
    """Faulty: the loop keeps the best plan by reference, and the next replays write over it."""
    search = CrossEntropySearch(device)

    def refresh(args, kwargs, k):
        if search.score is not None and search.score.item() > search.best_score:
            search.best, search.best_score = search.candidate, search.score.item()
        if k % 30 == 29 and search.best is not None:
            search.mean.copy_(search.best)
            search.best_score = float("-inf")
        args[0].copy_(torch.randn(32, 16))

    return Step(search.propose, (torch.randn(32, 16, device=device),), refresh=refresh)


class EvalPolicy:
    """Evaluation of Rainbow: an epsilon of 0.001."""

    def __init__(self, device, epsilon=0.001):
        self.q = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device).requires_grad_(False)
        self.epsilon, self.device = epsilon, device
        self.last = torch.zeros(6, dtype=torch.long, device=device)

    def act(self, obs):
        q = self.q(obs)
        if random.random() < self.epsilon:
            action = torch.randint(0, 4, (6,), device=self.device)
        else:
            action = q.argmax(1)
        self.last.copy_(action)
        return action, q


def build_eval_epsilon(device):
    """Faulty: with a probability of 0.001, drawn on the host, the step acts at random, which a replay never does."""
    policy = EvalPolicy(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 8))

    return Step(policy.act, (torch.randn(6, 8, device=device),), refresh=refresh)


class PackedPrefill:
    def __init__(self, device, capacity=512):
        self.device, self.rng = device, np.random.default_rng(7)
        self.embed = nn.Embedding(50, 16).to(device).requires_grad_(False)
        self.tokens = torch.zeros(capacity, dtype=torch.long, device=device)
        self.last = torch.zeros(3, dtype=torch.long, device=device)

    def schedule(self):
        lengths = (10 * (1 + self.rng.pareto(1.6, 3))).astype(int)
        total = int(lengths.sum())
        if total > self.tokens.numel():  # a long prompt: take a larger buffer
            self.tokens = torch.zeros(2 * total, dtype=torch.long, device=self.device)
        self.tokens[:total].copy_(torch.from_numpy(self.rng.integers(0, 50, total)))
        self.last.copy_(torch.from_numpy(lengths.cumsum() - 1))

    def step(self):
        return self.embed(self.tokens[self.last]).tanh()


def build_long_prompt(device):
    """Faulty: a rare long prompt makes the loop replace the token buffer, and the graph reads the old one ever after."""
    engine = PackedPrefill(device)
    return Step(engine.step, refresh=lambda args, kwargs, k: engine.schedule())


class AuxModel(nn.Module):
    """Keeps the hidden state of the last call, from which a drafter works."""

    def __init__(self, keep_in_place):
        super().__init__()
        self.up, self.down = nn.Linear(12, 16), nn.Linear(16, 12)
        self.keep_in_place = keep_in_place
        self.register_buffer("aux", torch.zeros(4, 16))

    def forward(self, x, draft):
        h = torch.tanh(self.up(x)) + 0.1 * draft
        if x.shape[0] == 4:
            if self.keep_in_place:
                self.aux.copy_(h)
            else:
                self.aux = h
        return self.down(h)


def aux_target(device, keep_in_place):
    model = AuxModel(keep_in_place).to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[1].copy_(model.aux.roll(1, 0))
        args[0].copy_(torch.randn(4, 12))
        if k % 7 == 6:  # a request that does not fit the graph runs eagerly
            model(torch.randn(4, 12, device=device), torch.zeros(4, 16, device=device))

    return Step(model, (torch.randn(4, 12, device=device), torch.zeros(4, 16, device=device)), refresh=refresh)


def build_aux_rebound(device):
    """Faulty: an eager call between replays binds the kept hidden state to other memory, and the loop reads that one from then on."""
    return aux_target(device, keep_in_place=False)


def build_aux_in_place(device):
    """Sound: the kept hidden state is one buffer for eager calls and replays alike."""
    return aux_target(device, keep_in_place=True)


def build_validate(device):
    """Sound: the loop validates in eval mode between steps and goes back to train mode, and keeps the best weights as copies."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    val_x, val_y = batch(device)
    best = {"loss": float("inf"), "weights": None}

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k % 10 == 9:
            model.eval()
            with torch.no_grad():
                loss = F.cross_entropy(model(val_x), val_y).item()
            model.train()
            if loss < best["loss"]:
                best.update(loss=loss, weights=copy.deepcopy(model.state_dict()))
        fill(args)

    return Step(step, batch(device), refresh=refresh)


def build_zero_grad_none(device):
    """Faulty: the loop steps the optimizer and then drops the gradients, so that after a replay no parameter has a .grad to step with."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def forward_backward(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    def refresh(args, kwargs, k):
        opt.step()
        opt.zero_grad()
        fill(args)

    return Step(forward_backward, batch(device), refresh=refresh)


def build_ddpm_closed(device, n=40):
    """Sound: ancestral sampling with a device index, a table and the default generator; the loop does nothing between steps."""
    beta = torch.linspace(1e-3, 0.1, n, device=device)
    keep = (1 - beta).cumprod(0)
    model = nn.Sequential(nn.Linear(11, 32), nn.SiLU(), nn.Linear(32, 10)).to(device).requires_grad_(False)
    x = torch.randn(4, 10, device=device)
    t = torch.full((1,), n - 1, dtype=torch.long, device=device)

    def step():
        b, a = beta.index_select(0, t), keep.index_select(0, t)
        eps = model(torch.cat((x, (t / n).expand(4, 1)), 1))
        mean = (x - b / (1 - a).sqrt() * eps) / (1 - b).sqrt()
        x.copy_(mean + torch.where(t > 0, b.sqrt(), torch.zeros_like(b)) * torch.randn_like(x))
        t.sub_(1).remainder_(n)
        return x.clone()

    return Step(step)
