"""Training loops whose refresh does what a trainer does between two steps."""
import copy
import itertools

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe
from common_a import mlp


class Trainer:
    def __init__(self, device, lr=0.05, drop=0.0):
        self.device = device
        self.model = mlp(device, drop=drop)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.x = torch.randn(8, 16, device=device)
        self.y = torch.randint(4, (8,), device=device)
        self.running = torch.ones((), device=device)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def data(self, args):
        args[0].copy_(torch.randn(8, 16))
        args[1].copy_(torch.randint(4, (8,)))

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=False)
        loss = self.loss(x, y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def target(self, refresh, fn=None):
        return graphsafe.Step(fn or self.step, (self.x, self.y), refresh=refresh)


def build_steplr_by_epoch(device):
    """Wrong: StepLR lowers the Python lr after 30 epochs of 500 steps, and the graph keeps the old number."""
    t = Trainer(device)
    sched = torch.optim.lr_scheduler.StepLR(t.opt, step_size=30, gamma=0.1)
    batches_per_epoch = 500

    def refresh(args, kwargs, k):
        if k > 0 and k % batches_per_epoch == 0:
            sched.step()  # once an epoch
        t.data(args)

    return t.target(refresh)


def build_generator_schedule(device):
    """Wrong: a generator yields KL weight 0 for 3000 steps and then a ramp; the weight is a Python number in the step."""
    t = Trainer(device)
    t.beta = 0.0

    def warm():
        for _ in range(3000):
            yield 0.0
        for i in range(10000):
            yield min(1.0, i / 2000)
        while True:
            yield 1.0

    betas = warm()

    def loss(x, y):
        logits = t.model(x)
        return F.cross_entropy(logits, y) + t.beta * logits.pow(2).mean()

    t.loss = loss

    def refresh(args, kwargs, k):
        t.beta = next(betas)
        t.data(args)

    return t.target(refresh)


def build_itertools_count(device):
    """Wrong: an itertools.count decides every 5000 steps to replace the target network by a copy, whose memory the graph does not read."""
    online, target = mlp(device), mlp(device)
    box = {"target": target}
    ticks = itertools.count(1)
    obs = torch.randn(8, 16, device=device)

    def step(obs):
        with torch.no_grad():
            return online(obs).amax(1) - 0.99 * box["target"](obs).amax(1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        with torch.no_grad():
            for p in online.parameters():
                p.add_(torch.randn(p.shape).to(p.device), alpha=1e-3)
        if next(ticks) % 5000 == 0:
            box["target"] = copy.deepcopy(online)

    return graphsafe.Step(step, (obs,), refresh=refresh)


def build_frames_target(device):
    """Wrong: every 10000 frames (4 a step) the target network is deep-copied to new memory that the graph does not know."""
    class Agent:
        def __init__(self):
            self.q = mlp(device)
            self.target = copy.deepcopy(self.q)
            self.frames = 0

        def act(self, obs):
            with torch.no_grad():
                return self.q(obs).argmax(1), self.target(obs).amax(1)

    agent = Agent()
    obs = torch.randn(8, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        with torch.no_grad():
            for p in agent.q.parameters():
                p.add_(torch.randn(p.shape).to(p.device), alpha=1e-2)
        agent.frames += 4
        if agent.frames % 10000 < 4:
            agent.target = copy.deepcopy(agent.q)

    return graphsafe.Step(agent.act, (obs,), refresh=refresh)


def build_unfreeze_epoch(device):
    """Wrong: the first layer is unfrozen when epoch k // 313 reaches 5, and the graph has no backward for it."""
    t = Trainer(device)
    first = t.model[0]
    first.requires_grad_(False)
    n_batches, unfreeze_at = 10016 // 32, 5

    def refresh(args, kwargs, k):
        epoch = k // n_batches
        if epoch >= unfreeze_at and not first.weight.requires_grad:
            first.requires_grad_(True)
        t.data(args)

    return t.target(refresh)


def build_last_batch(device):
    """Wrong: the last batch of an epoch of 6403 rows has 3 rows, and the number of rows is a Python number in the step."""
    t = Trainer(device)
    data = torch.randn(6403, 16)
    labels = torch.randint(4, (6403,))
    box = {"it": iter(()), "n": 8}

    def batches():
        order = torch.randperm(len(data))
        for part in order.split(4):
            yield data[part], labels[part]

    def step(x, y):
        n = box["n"]
        t.opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(t.model(x[:n]), y[:n])
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        try:
            x, y = next(box["it"])
        except StopIteration:
            box["it"] = batches()
            x, y = next(box["it"])
        box["n"] = len(x)
        args[0][: len(x)].copy_(x)
        args[1][: len(x)].copy_(y)

    box["n"] = 4
    return t.target(refresh, step)


def build_loss_stage(device):
    """Wrong: once the running loss falls below 0.02 the trainer adds a second term, which the graph does not contain."""
    t = Trainer(device, lr=0.002)
    t.stage = 1
    xs, ys = torch.randn(8, 16), torch.arange(8) % 4

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        logits = t.model(x)
        loss = F.cross_entropy(logits, y)
        if t.stage == 2:
            loss = loss + 0.1 * logits.abs().mean()
        loss.backward()
        t.opt.step()
        t.running.lerp_(loss.detach(), 0.01)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(xs + 0.01 * torch.randn(xs.shape))
        args[1].copy_(ys)
        if t.stage == 1 and t.running.item() < 0.02:
            t.stage = 2

    return t.target(refresh, step)


def build_curriculum(device):
    """Wrong: the length of sequences grows with k / total, and the slice of the step is a Python number."""
    emb = nn.Embedding(50, 16).to(device)
    head = nn.Linear(16, 50).to(device)
    ids = torch.randint(50, (4, 64), device=device)
    box = {"len": 8}
    total = 200_000

    def step(ids):
        with torch.no_grad():
            h = emb(ids[:, : box["len"]]).cumsum(1)
            return head(h).logsumexp(-1).mean()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(50, (4, 64)))
        box["len"] = int(8 + 56 * min(1.0, k / total))

    return graphsafe.Step(step, (ids,), refresh=refresh)


def build_amp_switch(device):
    """Wrong: from epoch 3 of 700 steps the loop enables bfloat16 autocast, while the graph keeps float32 kernels."""
    t = Trainer(device)
    box = {"amp": False, "epoch": 0, "left": 700}

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=box["amp"], cache_enabled=False):
            loss = t.loss(x, y)
        loss.backward()
        t.opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        t.data(args)
        box["left"] -= 1
        if box["left"] == 0:
            box["left"] = 700
            box["epoch"] += 1
            box["amp"] = box["epoch"] >= 3

    return t.target(refresh, step)


def build_scale_growth(device):
    """Wrong: the loss scale is a Python float that doubles after 2000 steps without overflow, and the graph keeps the old one."""
    t = Trainer(device)
    box = {"scale": 256.0, "good": 0}
    finite = torch.ones((), device=device)

    def step(x, y):
        t.opt.zero_grad(set_to_none=False)
        loss = t.loss(x, y)
        (loss * box["scale"]).backward()
        scaled = torch.stack([p.grad.abs().max() for p in t.model.parameters()]).max()
        finite.copy_(scaled.isfinite())
        for p in t.model.parameters():
            p.grad.mul_(1.0 / box["scale"])
        t.opt.step()
        return loss.detach(), scaled

    def refresh(args, kwargs, k):
        t.data(args)
        if finite.item():
            box["good"] += 1
            if box["good"] == 2000:
                box["scale"] *= 2.0
                box["good"] = 0
        else:
            box["scale"] *= 0.5
            box["good"] = 0

    return t.target(refresh, step)


def build_growing_replay(device):
    """Wrong: the replay memory doubles into a new tensor after 4096 rows, and the graph samples from the old one."""
    class Memory:
        def __init__(self):
            self.rows = torch.zeros(4096, 16, device=device)
            self.size = torch.zeros((), dtype=torch.int64, device=device)
            self.used = 0

        def push(self, batch):
            if self.used + len(batch) > len(self.rows):
                self.rows = torch.cat([self.rows, torch.zeros_like(self.rows)])
            self.rows[self.used : self.used + len(batch)].copy_(batch)
            self.used += len(batch)
            self.size.fill_(self.used)

    memory = Memory()
    net = mlp(device)
    u = torch.rand(16, device=device)

    def step(u):
        with torch.no_grad():
            index = (u * memory.size).long()
            return net(memory.rows.index_select(0, index)).mean(0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(16))
        memory.push(torch.randn(3, 16))

    return graphsafe.Step(step, (u,), refresh=refresh)
