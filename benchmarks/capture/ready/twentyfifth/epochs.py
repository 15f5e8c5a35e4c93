"""What happens late: epochs that are counted, last batches of long epochs, rare requests, plateaus."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import graphsafe

IN, OUT, N = 10, 4, 8


def net(device, dropout=0.0):
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(IN, 20), nn.ReLU(), nn.Dropout(dropout), nn.Linear(20, OUT)).to(device)


def data(samples):
    g = torch.Generator().manual_seed(1)
    return torch.randn(samples, IN, generator=g), torch.randint(0, OUT, (samples,), generator=g)


class Trainer:
    def __init__(self, device, lr=0.05):
        self.device = device
        self.model = net(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.rows = N
        self.epoch = 0
        self.last = torch.zeros((), device=device)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.last.copy_(loss.detach())
        return loss.detach()

    def counted(self, x, y):
        n = self.rows
        return self.step(x[:n], y[:n])

    def inputs(self):
        return torch.randn(N, IN, device=self.device), torch.randint(0, OUT, (N,), device=self.device)


def write(t, args, x, y):
    t.rows = len(x)
    args[0][: len(x)].copy_(x)
    args[1][: len(x)].copy_(y)


def build_short_position(device):
    """513 batches an epoch; the last one has four rows."""
    t = Trainer(device)
    x, y = data(4100)
    place = {"at": 0}

    def refresh(args, kwargs, k):
        at = place["at"]
        write(t, args, x[at : at + N], y[at : at + N])
        place["at"] = at + N if at + N < len(x) else 0

    return graphsafe.Step(t.counted, t.inputs(), refresh=refresh)


class Endless:
    def __init__(self, loader, on_epoch=None):
        self.loader = loader
        self.it = iter(loader)
        self.on_epoch = on_epoch

    def next(self):
        try:
            return next(self.it)
        except StopIteration:
            if self.on_epoch:
                self.on_epoch()
            self.it = iter(self.loader)
            return next(self.it)


def build_short_loader(device):
    """The same with a DataLoader."""
    t = Trainer(device)
    endless = Endless(DataLoader(TensorDataset(*data(4100)), batch_size=N))

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.counted, t.inputs(), refresh=refresh)


def build_drop_last(device):
    t = Trainer(device)
    endless = Endless(DataLoader(TensorDataset(*data(4100)), batch_size=N, drop_last=True, shuffle=True))

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


def build_multistep_float(device):
    """20 batches an epoch, the rate drops after 30 epochs."""
    t = Trainer(device)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(t.optimizer, [30, 60])
    endless = Endless(DataLoader(TensorDataset(*data(160)), batch_size=N), scheduler.step)

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


def build_multistep_tensor(device):
    t = Trainer(device, lr=torch.tensor(0.05, device=device))
    scheduler = torch.optim.lr_scheduler.MultiStepLR(t.optimizer, [30, 60])
    endless = Endless(DataLoader(TensorDataset(*data(160)), batch_size=N), scheduler.step)

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


def build_unfreeze_epoch(device):
    """The first layer learns from the 25th epoch on; an epoch has 20 batches."""
    t = Trainer(device)
    t.model[0].requires_grad_(False)

    def next_epoch():
        t.epoch += 1
        if t.epoch == 25:
            t.model[0].requires_grad_(True)

    endless = Endless(DataLoader(TensorDataset(*data(160)), batch_size=N), next_epoch)

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


class Smoothed(Trainer):
    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        smoothing = 0.1 if self.epoch < 3 else 0.0
        loss = F.cross_entropy(self.model(x), y, label_smoothing=smoothing)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build_smooth_epochs(device):
    """An epoch has 250 batches; smoothing ends after the third."""
    t = Smoothed(device)

    def next_epoch():
        t.epoch += 1

    endless = Endless(DataLoader(TensorDataset(*data(2000)), batch_size=N, shuffle=True), next_epoch)

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


def build_plateau_float(device):
    t = Trainer(device)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(t.optimizer, factor=0.1, patience=4)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(N, IN))
        args[1].copy_(torch.randint(0, OUT, (N,)))
        if k and k % 20 == 0:
            scheduler.step(t.last.item())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


def build_plateau_tensor(device):
    t = Trainer(device, lr=torch.tensor(0.05, device=device))
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(t.optimizer, factor=0.1, patience=4)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(N, IN))
        args[1].copy_(torch.randint(0, OUT, (N,)))
        if k and k % 20 == 0:
            scheduler.step(t.last.item())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


class DelayedAverage(Trainer):
    def __init__(self, device, start=2000):
        super().__init__(device)
        self.start = start
        self.n = 0
        self.average = [p.detach().clone() for p in self.model.parameters()]

    def averaged(self, x, y):
        loss = self.step(x, y)
        self.n += 1
        with torch.no_grad():
            if self.n == self.start:
                torch._foreach_copy_(self.average, list(self.model.parameters()))
            torch._foreach_lerp_(self.average, list(self.model.parameters()), 0.01)
        return loss


def build_ema_start(device):
    t = DelayedAverage(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(N, IN))
        args[1].copy_(torch.randint(0, OUT, (N,)))

    return graphsafe.Step(t.averaged, t.inputs(), refresh=refresh)


# --- engines


class Workspace:
    """Prompts of chance lengths; the workspace grows when a longer one than ever arrives."""

    def __init__(self, device, room=480, most=512):
        self.device = device
        self.layer = nn.Linear(8, 8).to(device).requires_grad_(False)
        self.prompt = torch.zeros(room, 8, device=device)
        self.most = most
        self.length = torch.ones(1, dtype=torch.long, device=device)
        self.room = room

    def admit(self, length):
        if length > self.room:
            self.room = 2 * self.room
            self.prompt = torch.zeros(self.room, 8, device=self.device)
        self.prompt[:length].copy_(torch.randn(length, 8))
        self.length.fill_(length)

    def step(self, x):
        keep = torch.arange(self.prompt.shape[0], device=x.device) < self.length
        scores = (self.layer(x) @ self.prompt.t()).masked_fill(~keep, float("-inf"))
        return scores.softmax(-1) @ self.prompt


def workspace_step(w, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8))
        w.admit(random.randint(1, w.most))

    return graphsafe.Step(w.step, (torch.randn(2, 8, device=device),), refresh=refresh)


def build_workspace_grows(device):
    return workspace_step(Workspace(device, room=500), device)


def build_workspace_fits(device):
    return workspace_step(Workspace(device, room=512), device)


class Adapters:
    """LoRA adapters in slots; a fifth adapter makes the pool larger."""

    def __init__(self, device, slots=4, grow=True):
        self.device = device
        self.base = nn.Linear(8, 8).to(device).requires_grad_(False)
        self.a = torch.zeros(slots, 8, 2, device=device)
        self.b = torch.zeros(slots, 2, 8, device=device)
        self.index = torch.zeros(2, dtype=torch.long, device=device)
        self.loaded = 0
        self.grow = grow

    def load(self):
        slot = self.loaded
        if self.grow and slot >= len(self.a):
            self.a = torch.cat([self.a, torch.zeros_like(self.a)])
            self.b = torch.cat([self.b, torch.zeros_like(self.b)])
        slot = slot % len(self.a)  # without growth the oldest adapter is replaced
        self.a[slot].copy_(torch.randn(8, 2))
        self.b[slot].copy_(torch.randn(2, 8))
        self.loaded += 1
        self.index.fill_(slot)

    def step(self, x):
        low = torch.einsum("bi,bir->br", x, self.a[self.index])
        return self.base(x) + torch.einsum("br,bri->bi", low, self.b[self.index])


def adapters_step(p, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8))

    return graphsafe.Step(
        p.step, (torch.randn(2, 8, device=device),), refresh=refresh, events={"load adapter": p.load}
    )


def build_adapters_grow(device):
    return adapters_step(Adapters(device), device)


def build_adapters_lru(device):
    return adapters_step(Adapters(device, grow=False), device)


class Environment:
    """Eight environments a step; the target network is exchanged every 10,000 frames."""

    def __init__(self, device):
        self.q = nn.Linear(6, 3).to(device).requires_grad_(False)
        self.target = nn.Linear(6, 3).to(device).requires_grad_(False)
        self.frames = 0

    def step(self, x):
        return self.q(x) - self.target(x)

    def assign(self):
        self.frames += 8
        if self.frames % 10_000 == 0:
            self.target.weight.data = self.q.weight.data.clone()
            self.target.bias.data = self.q.bias.data.clone()

    def copy(self):
        self.frames += 8
        if self.frames % 10_000 == 0:
            self.target.load_state_dict(self.q.state_dict())


def env_step(env, tick, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 6))
        tick()

    return graphsafe.Step(env.step, (torch.randn(8, 6, device=device),), refresh=refresh)


def build_frames_assign(device):
    env = Environment(device)
    return env_step(env, env.assign, device)


def build_frames_copy(device):
    env = Environment(device)
    return env_step(env, env.copy, device)


class Arrivals:
    """Requests come by chance; one in 200 asks for a negative prompt, which needs guidance."""

    def __init__(self, device):
        self.net = nn.Linear(8, 8).to(device).requires_grad_(False)
        self.negative = torch.zeros(2, 8, device=device)
        self.scale = torch.ones(1, device=device)
        self.guided = False
        self.left = 0

    def arrive(self):
        if self.left:
            self.left -= 1
        else:
            self.guided = np.random.rand() < 0.005
            if self.guided:
                self.left = 10
                self.negative.copy_(torch.randn(2, 8))
        self.scale.fill_(3.0 if self.guided else 1.0)

    def branch(self, x):
        y = self.net(x)
        if self.guided:
            other = self.net(self.negative)
            y = other + self.scale * (y - other)
        return y

    def always(self, x):
        other = self.net(self.negative)
        return other + self.scale * (self.net(x) - other)


def arrivals_step(a, fn, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8))
        a.arrive()

    return graphsafe.Step(fn, (torch.randn(2, 8, device=device),), refresh=refresh)


def build_arrivals_branch(device):
    a = Arrivals(device)
    return arrivals_step(a, a.branch, device)


def build_arrivals_always(device):
    a = Arrivals(device)
    return arrivals_step(a, a.always, device)


# --- a heavy step, so that few rounds fit into the time


class Heavy(nn.Module):
    def __init__(self, dim=512, layers=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.gain = 1.0
        self.register_buffer("gains", torch.ones(1))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x)) * 0.1
        return x


class HeavyFloat(Heavy):
    def forward(self, x):
        return super().forward(x) * self.gain


class HeavyTensor(Heavy):
    def forward(self, x):
        return super().forward(x) * self.gains


def build_heavy_float(device):
    """Every 160th step calibrates with another gain."""
    model = HeavyFloat().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(256, 512))
        model.gain = 0.5 if k % 160 == 159 else 1.0

    return graphsafe.Step(model, (torch.randn(256, 512, device=device),), refresh=refresh)


def build_heavy_tensor(device):
    model = HeavyTensor().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(256, 512))
        model.gains.fill_(0.5 if k % 160 == 159 else 1.0)

    return graphsafe.Step(model, (torch.randn(256, 512, device=device),), refresh=refresh)


def build_heavy_loader(device):
    """The last batch of each epoch of 150 is short; the mean is taken over its rows."""
    model = Heavy().to(device).requires_grad_(False)
    rows = {"n": 256}

    def batches():
        for i in range(150):
            yield torch.randn(256 if i < 149 else 100, 512)

    source = Endless(type("Epoch", (), {"__iter__": lambda self: batches()})())

    def evaluate(x):
        n = rows["n"]
        return model(x)[:n].mean(0)

    def refresh(args, kwargs, k):
        x = source.next()
        rows["n"] = len(x)
        args[0][: len(x)].copy_(x)

    return graphsafe.Step(evaluate, (torch.randn(256, 512, device=device),), refresh=refresh)
