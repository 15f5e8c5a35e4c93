"""More sound steps with traps for a checker."""
import copy
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from common_a import mlp
from sched_bad import Trainer
from events_bad import Engine


def build_data_run_out(device):
    """Right: the list holds 60 batches and the loop ends when it runs out; each batch is copied into the static input."""
    t = Trainer(device)
    batches = [(torch.randn(8, 16), torch.randint(4, (8,))) for _ in range(60)]

    def refresh(args, kwargs, k):
        x, y = batches[k]  # IndexError ends training
        args[0].copy_(x)
        args[1].copy_(y)

    return t.target(refresh)


def build_log_in_step(device):
    """Right: the step counts and prints its number every 100 steps, and no device work depends on the count."""
    t = Trainer(device)
    s = {"n": 0, "t": time.perf_counter(), "rates": []}

    def step(x, y):
        loss = t.step(x, y)
        s["n"] += 1
        if s["n"] % 100 == 0:
            now = time.perf_counter()
            s["rates"].append(100 / (now - s["t"]))
            s["t"] = now
            print("updates", s["n"])
        return loss

    return t.target(lambda args, kwargs, k: t.data(args), step)


def build_epoch_sampler(device):
    """Right: every 50 steps the epoch changes the order of the data and adds harder samples, and only copied values change."""
    t = Trainer(device)
    data, labels = torch.randn(400, 16), torch.randint(4, (400,))
    s = {"epoch": -1, "order": []}

    def refresh(args, kwargs, k):
        if not s["order"]:
            s["epoch"] += 1
            g = torch.Generator().manual_seed(s["epoch"])
            hard = 200 if s["epoch"] < 2 else 400
            s["order"] = torch.randperm(hard, generator=g).tolist()
        rows = [s["order"].pop() for _ in range(8)]
        args[0].copy_(data[rows])
        args[1].copy_(labels[rows])

    return t.target(refresh)


def build_freeze_by_scale(device):
    """Right: unfreezing at epoch 5 sets a device scale from 0 to 1 that multiplies the first layer's gradient in the graph."""
    t = Trainer(device)
    scale = torch.zeros((), device=device)
    s = {"epoch": 0}

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        loss = t.loss(x, y)
        loss.backward()
        for p in t.model[0].parameters():
            p.grad.mul_(scale)
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k and k % 30 == 0:
            s["epoch"] += 1
        scale.fill_(1.0 if s["epoch"] >= 5 else 0.0)
        t.data(args)

    return t.target(refresh, step)


def build_two_graph_dispatch(device):
    """Right: the epsilon-greedy coin is thrown by the loop, which runs the random action outside and writes the action the step applies."""
    pos, vel = torch.zeros(16, 2, device=device), torch.zeros(16, 2, device=device)
    net = mlp(device, d=4, o=2)
    action = torch.zeros(16, 2, device=device)
    rng = np.random.default_rng(9)

    def step(action):
        with torch.no_grad():
            vel.mul_(0.98).add_(action, alpha=0.02)
            pos.add_(vel, alpha=0.02)
            far = pos.norm(dim=1, keepdim=True) > 1.0
            pos.copy_(torch.where(far, torch.zeros_like(pos), pos))
            return pos.clone(), -pos.norm(dim=1)

    def refresh(args, kwargs, k):
        with torch.no_grad():
            greedy = net(torch.cat([pos, vel], 1)).tanh()
        if rng.random() < max(0.02, 1 - k / 100):
            greedy = torch.as_tensor(rng.uniform(-1, 1, (16, 2)), dtype=torch.float32, device=device)
        args[0].copy_(greedy)

    return graphsafe.Step(step, (action,), refresh=refresh)


def build_swap_adapter(device):
    """Right: the loop swaps adapters every 25 steps by copying one of three stored adapters into the static one."""
    e = Engine(device)
    a, b = torch.zeros(8, 32, device=device), torch.zeros(32, 8, device=device)
    store = [(torch.randn(8, 32) * 0.1, torch.randn(32, 8) * 0.1) for _ in range(3)]
    s = {"now": 0}

    def step(x):
        return e.forward(x) + x @ a.T @ b.T

    def refresh(args, kwargs, k):
        e.prepare(args, kwargs, k)
        if k % 25 == 0:
            s["now"] = random.randrange(3)
            a.copy_(store[s["now"]][0])
            b.copy_(store[s["now"]][1])

    return graphsafe.Step(step, (e.x,), refresh=refresh)


def build_best_checkpoint(device):
    """Right: the loop reads the loss, keeps a deep copy of the best weights on the host, and stops looking after 50 bad steps."""
    t = Trainer(device)
    s = {"best": 1e9, "bad": 0, "keep": None, "stopped": False}
    last = torch.full((), 10.0, device=device)

    def step(x, y):
        loss = t.step(x, y)
        last.copy_(loss)
        return loss

    def refresh(args, kwargs, k):
        value = last.item()
        if not s["stopped"]:
            if value < s["best"]:
                s.update(best=value, bad=0, keep=copy.deepcopy(t.model.state_dict()))
            else:
                s["bad"] += 1
                s["stopped"] = s["bad"] > 50
        t.data(args)

    return t.target(refresh, step)


def build_lookahead(device):
    """Right: Lookahead's slow weights are blended outside of the graph in place, every 6 steps, into the same parameters."""
    t = Trainer(device)
    slow = [p.detach().clone() for p in t.model.parameters()]

    def refresh(args, kwargs, k):
        if k and k % 6 == 0:
            with torch.no_grad():
                for w, p in zip(slow, t.model.parameters()):
                    w.lerp_(p, 0.5)
                    p.copy_(w)
        t.data(args)

    return t.target(refresh)
