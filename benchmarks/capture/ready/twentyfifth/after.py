"""Events and resets whose effect comes later, and counters that a reset sets back."""
import torch
import torch.nn as nn

import graphsafe

D = 16


class Engine:
    """New weights arrive at any time and are applied between two batches, every 16 steps."""

    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, D)).to(device).requires_grad_(False)
        self.incoming = None
        self.steps = 0

    def receive(self):
        self.incoming = [torch.randn(p.shape) * 0.2 for p in self.model.parameters()]

    def due(self):
        self.steps += 1
        return self.incoming is not None and self.steps % 16 == 0

    def apply_assign(self):
        for p, new in zip(self.model.parameters(), self.incoming):
            p.data = new.to(self.device)
        self.incoming = None

    def apply_copy(self):
        for p, new in zip(self.model.parameters(), self.incoming):
            p.copy_(new)
        self.incoming = None


def engine_step(e, apply, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, D))
        if e.due():
            apply()

    return graphsafe.Step(
        e.model, (torch.randn(2, D, device=device),), refresh=refresh, events={"weights arrive": e.receive}
    )


def build_async_assign(device):
    e = Engine(device)
    return engine_step(e, e.apply_assign, device)


def build_async_copy(device):
    e = Engine(device)
    return engine_step(e, e.apply_copy, device)


class LongRope:
    """Short factors up to the original length, long factors beyond it."""

    def __init__(self, device, original=4096):
        self.original = original
        base = 10000.0 ** (-torch.arange(0, D, 2) / D)
        self.short = base.to(device)
        self.long = (base / torch.linspace(1, 8, D // 2)).to(device)
        self.q = nn.Linear(D, D).to(device).requires_grad_(False)
        self.pos = torch.zeros(1, device=device)
        self.seen = 0

    def rotate(self, x, freq):
        angle = self.pos * freq
        a, b = self.q(x).chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def host(self, x):
        freq = self.long if self.seen > self.original else self.short
        return self.rotate(x, freq)

    def device(self, x):
        freq = torch.where(self.pos > self.original, self.long, self.short)
        return self.rotate(x, freq)

    def advance(self):
        self.seen += 1
        self.pos.fill_(self.seen)

    def restart(self):
        self.seen = 0
        self.pos.fill_(0)


def rope_step(r, fn, device, **more):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, D))
        r.advance()

    return graphsafe.Step(fn, (torch.randn(1, D, device=device),), refresh=refresh, **more)


def build_longrope_reset(device):
    r = LongRope(device)
    return rope_step(r, r.host, device, reset=r.restart)


def build_longrope_event(device):
    r = LongRope(device, original=1024)
    return rope_step(r, r.host, device, events={"new request": r.restart})


def build_longrope_plain(device):
    r = LongRope(device)
    return rope_step(r, r.host, device)


def build_longrope_device(device):
    r = LongRope(device)
    return rope_step(r, r.device, device, reset=r.restart)


class Denoise(nn.Module):
    """A speech enhancer: the noise profile is taken from the eighth chunk of each call."""

    def __init__(self, at=8):
        super().__init__()
        self.mix = nn.Linear(D, D)
        self.register_buffer("profile", torch.zeros(1, D))
        self.register_buffer("count", torch.zeros(1))
        self.at = at
        self.chunks = 0

    def clean(self, x):
        return torch.relu(self.mix(x).abs() - self.profile)


class HostProfile(Denoise):
    def forward(self, x):
        self.chunks += 1
        if self.chunks == self.at:
            self.profile.copy_(self.mix(x).abs())
        return self.clean(x)

    def restart(self):
        self.chunks = 0


class DeviceProfile(Denoise):
    def forward(self, x):
        self.count.add_(1)
        self.profile.copy_(torch.where(self.count == self.at, self.mix(x).abs(), self.profile))
        return self.clean(x)

    def restart(self):
        self.count.zero_()


def profile_step(model, device):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, D))

    x = torch.randn(1, D, device=device)
    for _ in range(10):  # warm-up with the first call's chunks
        model(x)
    return graphsafe.Step(model, (x,), refresh=refresh, reset=model.restart)


def build_profile_host(device):
    return profile_step(HostProfile().to(device).requires_grad_(False), device)


def build_profile_device(device):
    return profile_step(DeviceProfile().to(device).requires_grad_(False), device)


class Melt:
    """Molecular dynamics with a velocity rescaling every 1000 steps; each run starts at step 0."""

    def __init__(self, device):
        self.x = torch.rand(12, 2).to(device)
        self.v = (torch.rand(12, 2) - 0.5).to(device)
        self.field = torch.zeros(2, device=device)
        self.n = 0
        self.count = torch.zeros((), dtype=torch.long, device=device)

    def move(self):
        self.v.add_((0.5 - self.x) + self.field, alpha=0.01)
        self.x.add_(self.v, alpha=0.01)

    def host(self):
        self.move()
        self.n += 1
        if self.n % 1000 == 0:
            self.v.mul_((0.05 / (self.v**2).mean()).sqrt())
        return self.x.clone(), self.v.clone()

    def device(self):
        self.move()
        self.count.add_(1)
        factor = (0.05 / (self.v**2).mean()).sqrt()
        self.v.mul_(torch.where(self.count % 1000 == 0, factor, torch.ones_like(factor)))
        return self.x.clone(), self.v.clone()

    def restart(self):
        self.n = 0
        self.count.zero_()


def build_melt_host(device):
    m = Melt(device)
    return graphsafe.Step(
        m.host, (), refresh=lambda args, kwargs, k: m.field.copy_(torch.randn(2)), reset=m.restart
    )


def build_melt_device(device):
    m = Melt(device)
    return graphsafe.Step(
        m.device, (), refresh=lambda args, kwargs, k: m.field.copy_(torch.randn(2)), reset=m.restart
    )


class Prefixes:
    """Shared prompts, registered one by one; the pool doubles when it is full."""

    def __init__(self, device, room=8):
        self.device = device
        self.pool = torch.zeros(room, D, device=device)
        self.used = 0
        self.pick = torch.zeros(2, dtype=torch.long, device=device)
        self.layer = nn.Linear(D, D).to(device).requires_grad_(False)

    def register(self):
        if self.used == len(self.pool):
            self.pool = torch.cat([self.pool, torch.zeros_like(self.pool)])
        self.pool[self.used].copy_(torch.randn(D))
        self.pick.fill_(self.used)
        self.used += 1

    def step(self, x):
        return self.layer(x) + self.pool[self.pick]


def build_prefix_pool(device):
    p = Prefixes(device)
    for _ in range(6):
        p.register()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, D))

    return graphsafe.Step(
        p.step, (torch.randn(2, D, device=device),), refresh=refresh, events={"register a prefix": p.register}
    )
