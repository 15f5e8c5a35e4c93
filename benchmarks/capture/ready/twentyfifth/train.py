"""Training steps: optimizers, schedules, clipping, accumulation, mixed precision, averages, evaluation, epochs."""
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

IN, HID, OUT, BATCH = 12, 24, 5, 8


def net(device, dropout=0.0):
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(IN, HID), nn.ReLU(), nn.Dropout(dropout), nn.Linear(HID, OUT)).to(device)


def batch(device):
    return torch.randn(BATCH, IN, device=device), torch.randint(0, OUT, (BATCH,), device=device)


def fill(args):
    args[0].copy_(torch.randn(BATCH, IN))
    args[1].copy_(torch.randint(0, OUT, (BATCH,)))


def train_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# --- learning rates


def build_adamw_tensor_lr(device):
    model = net(device)
    lr = torch.tensor(1e-3, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, capturable=True)

    def refresh(args, kwargs, k):
        fill(args)
        warm = min(1.0, (k + 1) / 50)
        optimizer.param_groups[0]["lr"].fill_(1e-3 * warm)

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


def build_adamw_new_lr(device):
    model = net(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3, device=device), capturable=True)

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 40 == 0:  # end of an epoch
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 0.5

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


def build_sgd_step_lr(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 60 == 0:  # an epoch has 60 batches
            scheduler.step()

    step = train_step(model, optimizer)
    return graphsafe.Step(step, batch(device), refresh=refresh)


def build_sgd_constant(device):
    model = net(device, dropout=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)

    def refresh(args, kwargs, k):
        fill(args)
        if k % 100 == 0:  # each epoch has its own seed
            torch.manual_seed(1000 + k // 100)

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


def build_adam_resume(device):
    model = net(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    saved = {}

    def rollback():  # the loss has spiked: back to the last checkpoint
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

    step = train_step(model, optimizer)
    x, y = batch(device)
    step(x, y)
    saved["model"] = copy.deepcopy(model.state_dict())
    saved["optimizer"] = copy.deepcopy(optimizer.state_dict())

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(step, (x, y), refresh=refresh, events={"rollback": rollback})


def build_adam_rollback(device):
    model = net(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    step = train_step(model, optimizer)
    x, y = batch(device)
    step(x, y)
    saved = copy.deepcopy(model.state_dict())
    moments = {p: {n: t.clone() for n, t in optimizer.state[p].items()} for p in model.parameters()}

    def rollback():
        model.load_state_dict(saved)
        for p, state in moments.items():
            for name, value in state.items():
                optimizer.state[p][name].copy_(value)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(step, (x, y), refresh=refresh, events={"rollback": rollback})


# --- Muon


def orthogonal(g, steps=3):
    x = g / (g.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


class Muon:
    def __init__(self, params, lr=0.02, momentum=0.95):
        self.params = list(params)
        self.buffers = [torch.zeros_like(p) for p in self.params]
        self.lr = lr
        self.momentum = momentum

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.params, self.buffers):
            m.mul_(self.momentum).add_(p.grad)
            p.sub_(orthogonal(p.grad + m * self.momentum) * self.lr)

    def zero_grad(self, set_to_none=False):
        for p in self.params:
            if p.grad is not None:
                p.grad.zero_()


def matrices(device):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(IN, 16, bias=False), nn.Tanh(), nn.Linear(16, OUT, bias=False)).to(device)


def build_muon_tensors(device):
    model = matrices(device)
    optimizer = Muon(model.parameters(), torch.tensor(0.02, device=device), torch.tensor(0.85, device=device))

    def refresh(args, kwargs, k):
        fill(args)
        optimizer.momentum.fill_(0.85 + 0.1 * min(1.0, k / 300))
        optimizer.lr.fill_(0.02 * (1 - min(0.9, k / 1000)))

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


def build_muon_momentum(device):
    model = matrices(device)
    optimizer = Muon(model.parameters())

    def refresh(args, kwargs, k):
        fill(args)
        optimizer.momentum = 0.95 if k < 150 else 0.98

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


# --- averages of the weights


class Averaged:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.updates = 0
        self.source = list(model.parameters())
        self.params = [p.detach().clone() for p in self.source]

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.params, self.source, 1 - self.decay)

    @torch.no_grad()
    def update_warm(self):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(self.params, self.source, 1 - decay)


def averaged_step(model, optimizer, update):
    inner = train_step(model, optimizer)

    def step(x, y):
        loss = inner(x, y)
        update()
        return loss

    return step


def build_ema_eval(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ema = Averaged(model)
    x_eval = torch.randn(16, IN, device=device)
    scores = []

    @torch.no_grad()
    def evaluate():  # with the averaged weights; the trained ones come back afterwards
        backup = [p.detach().clone() for p in ema.source]
        for p, e in zip(ema.source, ema.params):
            p.copy_(e)
        model.eval()
        scores.append(model(x_eval).mean().item())
        model.train()
        for p, b in zip(ema.source, backup):
            p.copy_(b)

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 50 == 0:
            evaluate()

    return graphsafe.Step(averaged_step(model, optimizer, ema.update), batch(device), refresh=refresh)


def build_ema_swapped(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ema = Averaged(model)

    def end_of_phase():  # the second phase goes on from the averaged weights
        for p, e in zip(ema.source, ema.params):
            p.data = e.clone()

    def refresh(args, kwargs, k):
        fill(args)
        if k == 110:
            end_of_phase()

    return graphsafe.Step(averaged_step(model, optimizer, ema.update), batch(device), refresh=refresh)


def build_ema_warm(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ema = Averaged(model)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(averaged_step(model, optimizer, ema.update_warm), batch(device), refresh=refresh)


# --- clipping, accumulation, mixed precision


def build_clipped(device):
    model = net(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach(), norm

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(step, batch(device), refresh=refresh)


def build_skip_spike(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(step, batch(device), refresh=refresh)


class Accumulating:
    def __init__(self, device, every=4):
        self.model = net(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.every = every
        self.micro = 0

    def whole(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        total = torch.zeros((), device=x.device)
        for xs, ys in zip(x.chunk(self.every), y.chunk(self.every)):
            loss = F.cross_entropy(self.model(xs), ys) / self.every
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        return total

    def single(self, x, y):
        loss = F.cross_entropy(self.model(x), y) / self.every
        loss.backward()
        self.micro += 1
        if self.micro % self.every == 0:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    def backward(self, x, y):
        loss = F.cross_entropy(self.model(x), y) / self.every
        loss.backward()
        return loss.detach()


def build_accumulate_whole(device):
    acc = Accumulating(device)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(acc.whole, batch(device), refresh=refresh)


def build_accumulate_micro(device):
    acc = Accumulating(device)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(acc.single, batch(device), refresh=refresh)


def build_accumulate_outside(device):
    """Forward and backward are captured; the optimizer runs outside, every fourth step."""
    acc = Accumulating(device)

    def refresh(args, kwargs, k):
        if k and k % acc.every == 0:
            acc.optimizer.step()
            acc.optimizer.zero_grad(set_to_none=False)
        fill(args)

    x, y = batch(device)
    acc.backward(x, y)
    acc.optimizer.zero_grad(set_to_none=False)
    return graphsafe.Step(acc.backward, (x, y), refresh=refresh)


def build_accumulate_none(device):
    """As above, but the gradients are dropped."""
    acc = Accumulating(device)

    def refresh(args, kwargs, k):
        if k and k % acc.every == 0:
            acc.optimizer.step()
            acc.optimizer.zero_grad()
        fill(args)

    x, y = batch(device)
    return graphsafe.Step(acc.backward, (x, y), refresh=refresh)


class Scaled:
    """fp16-style loss scaling that stays on the device."""

    def __init__(self, device):
        self.model = net(device)
        self.params = list(self.model.parameters())
        self.scale = torch.full((), 1024.0, device=device)
        self.good = torch.zeros((), device=device)

    def step(self, x, y):
        for p in self.params:
            p.grad.zero_()
        loss = F.cross_entropy(self.model(x), y)
        (loss * self.scale).backward()
        with torch.no_grad():
            bad = torch.stack([(~torch.isfinite(p.grad)).any() for p in self.params]).any()
            for p in self.params:
                update = p.grad / self.scale * 0.05
                p.sub_(torch.where(bad, torch.zeros_like(update), update))
            self.good.copy_(torch.where(bad, torch.zeros_like(self.good), self.good + 1))
            grow = self.good >= 20
            factor = (1 + grow.float()) * (1 - 0.5 * bad.float())
            self.scale.mul_(factor)
            self.good.mul_((~grow).float())
        return loss.detach()


def build_scaled_device(device):
    s = Scaled(device)
    for p in s.params:
        p.grad = torch.zeros_like(p)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(s.step, batch(device), refresh=refresh)


# --- regularisation, curriculum, freezing


class Deep(nn.Module):
    def __init__(self, layers=4, keep=0.8):
        super().__init__()
        self.first = nn.Linear(IN, HID)
        self.layers = nn.ModuleList(nn.Linear(HID, HID) for _ in range(layers))
        self.last = nn.Linear(HID, OUT)
        self.keep = keep

    def forward(self, x):
        h = self.first(x)
        for layer in self.layers:
            if self.training and random.random() > self.keep:
                continue
            h = h + torch.relu(layer(h))
        return self.last(h)


class DeepOnDevice(Deep):
    def forward(self, x):
        h = self.first(x)
        for layer in self.layers:
            gate = (torch.rand(1, device=x.device) < self.keep).to(h.dtype) / self.keep
            h = h + gate * torch.relu(layer(h))
        return self.last(h)


def build_layerdrop_host(device):
    model = Deep().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


def build_layerdrop_device(device):
    model = DeepOnDevice().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def refresh(args, kwargs, k):
        fill(args)

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


class Mixup:
    def __init__(self, device):
        self.model = net(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.lam = torch.ones(1, device=device)
        self.order = torch.arange(BATCH, device=device)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        mixed = self.lam * x + (1 - self.lam) * x[self.order]
        out = self.model(mixed)
        a = F.cross_entropy(out, y, reduction="none")
        b = F.cross_entropy(out, y[self.order], reduction="none")
        loss = (self.lam * a + (1 - self.lam) * b).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build_mixup(device):
    m = Mixup(device)

    def refresh(args, kwargs, k):
        fill(args)
        m.lam.fill_(float(np.random.beta(0.4, 0.4)))
        m.order.copy_(torch.from_numpy(np.random.permutation(BATCH)))

    return graphsafe.Step(m.step, batch(device), refresh=refresh)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.Linear(IN, HID)
        self.head = nn.Linear(HID, OUT)
        self.current = 8

    def forward(self, x):
        return self.head(torch.tanh(self.rnn(x)).cumsum(1))


def sequence_batch(device):
    return torch.randn(2, 32, IN, device=device), torch.randint(0, OUT, (2, 32), device=device)


def build_curriculum_slice(device):
    model = Sequence().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        n = model.current
        loss = F.cross_entropy(model(x[:, :n]).flatten(0, 1), y[:, :n].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 32, IN))
        args[1].copy_(torch.randint(0, OUT, (2, 32)))
        model.current = min(32, 8 * (1 + k // 90))

    return graphsafe.Step(step, sequence_batch(device), refresh=refresh)


def build_curriculum_mask(device):
    model = Sequence().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    mask = torch.zeros(32, device=device)
    mask[:8].fill_(1)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        each = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="none").view(2, 32)
        loss = (each * mask).sum() / (2 * mask.sum())
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 32, IN))
        args[1].copy_(torch.randint(0, OUT, (2, 32)))
        mask[: min(32, 8 * (1 + k // 90))].fill_(1)

    return graphsafe.Step(step, sequence_batch(device), refresh=refresh)


def build_unfreeze(device):
    model = net(device)
    for p in model[0].parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def refresh(args, kwargs, k):
        fill(args)
        if k == 130:  # from the third epoch the first layer learns too
            for p in model[0].parameters():
                p.requires_grad_(True)

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


def build_eval_forgets(device):
    model = net(device, dropout=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    held_out = torch.randn(16, IN, device=device)
    scores = []

    def evaluate():
        model.eval()
        with torch.no_grad():
            scores.append(model(held_out).argmax(-1).float().mean().item())

    def refresh(args, kwargs, k):
        fill(args)
        if k and k % 75 == 0:
            evaluate()

    return graphsafe.Step(train_step(model, optimizer), batch(device), refresh=refresh)


# --- loaders


class Loader:
    """Batches of a data set in a new order each epoch; the last batch is short."""

    def __init__(self, samples=100, drop_last=False):
        g = torch.Generator().manual_seed(5)
        self.x = torch.randn(samples, IN, generator=g)
        self.y = torch.randint(0, OUT, (samples,), generator=g)
        self.drop_last = drop_last
        self.it = iter(self.epoch())

    def epoch(self):
        order = np.random.default_rng(0).permutation(len(self.x))
        for i in range(0, len(order), BATCH):
            rows = torch.from_numpy(order[i : i + BATCH])
            if len(rows) == BATCH or not self.drop_last:
                yield self.x[rows], self.y[rows]

    def next(self):
        try:
            return next(self.it)
        except StopIteration:
            self.it = iter(self.epoch())
            return next(self.it)


def build_loader_masked(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = Loader()
    weight = torch.ones(BATCH, device=device)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = (F.cross_entropy(model(x), y, reduction="none") * weight).sum() / weight.sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        x, y = loader.next()
        n = len(x)
        args[0][:n].copy_(x)
        args[1][:n].copy_(y)
        weight[:n].fill_(1)
        weight[n:].fill_(0)

    return graphsafe.Step(step, batch(device), refresh=refresh)


def build_loader_count(device):
    model = net(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = Loader()
    rows = {"n": BATCH}

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        n = rows["n"]
        loss = F.cross_entropy(model(x[:n]), y[:n])
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        x, y = loader.next()
        rows["n"] = len(x)
        args[0][: len(x)].copy_(x)
        args[1][: len(x)].copy_(y)

    return graphsafe.Step(step, batch(device), refresh=refresh)
