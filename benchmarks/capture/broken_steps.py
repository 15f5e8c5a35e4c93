"""Twenty-two steps for plans. Each has two or three blocks of a transformer, and one operation that breaks its capture:

    python benchmarks/capture/plan_steps.py --device sim --check --out FOLDER \\
        $(printf 'benchmarks/capture/broken_steps.py:s%s ' $(seq 22))
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.qkv(h).chunk(3, -1)
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        x = x + self.out(a @ v)
        return x + self.down(F.gelu(self.up(x)))


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = Block(), Block(), nn.Linear(16, 8)


def X(device, *shape):
    return torch.randn(*(shape or (2, 6, 16)), device=device)


# 1 helper with conditional expression on a device value
def clamp_if_large(x):
    return x.clamp(-1, 1) if x.abs().max() > 2.5 else x


class S1(Base):
    def forward(self, x):
        x = self.a(x)
        x = clamp_if_large(x)
        return self.head(self.b(x))


# 2 helper called from within an expression
def scale_of(x):
    return 0.5 if bool((x > 3).any()) else 1.0


class S2(Base):
    def forward(self, x):
        x = self.a(x)
        return self.head(self.b(x * scale_of(x)))


# 3 one input that cannot be varied
class S3(Base):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1, 16)

    def forward(self, x, ids):
        x = self.a(x + self.emb(ids))
        n = x.abs().max().item()
        return self.head(self.b(x / n))


# 4 module that is built in inference mode
class S4(Base):
    def forward(self, x):
        x = self.a(x)
        peak = x.amax().item()
        x.mul_(1.0 / peak)
        return self.head(self.b(x))


# 5 private attr
class S5(Base):
    def __init__(self):
        super().__init__()
        self.__limit = nn.Parameter(torch.tensor(2.0))
        self.__count = 0

    def __bound(self, x):
        return x.clamp(max=self.__limit.item())

    def forward(self, x):
        x = self.a(x)
        x = self.__bound(x)
        self.__count += 1
        return self.head(self.b(x))


# 6 def-line body
class S6(Base):
    def peak(self, x): return x / x.abs().max().item()  # fmt: skip

    def forward(self, x):
        return self.head(self.b(self.peak(self.a(x))))


# 7 loop over layers, break in each
class S7(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.isnan().any():
                x = torch.nan_to_num(x)
        return self.head(x)


# 8 while loop on device value
class S8(Base):
    def forward(self, x):
        x = self.a(x)
        while x.norm() > 10:
            x = x * 0.5
        return self.head(self.b(x))


# 9 try / with
class S9(Base):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = self.a(x)
            try:
                x = x / x.abs().max().item()
            except ZeroDivisionError:
                x = x + 1
            x = self.b(x)
        return self.head(x)


# 10 method of a base class
class Mixin(Base):
    def limit(self, x):
        big = x.abs().max()
        if big > 2:
            x = x / big
        return x


class S10(Mixin):
    def forward(self, x):
        x = super().limit(self.a(x))
        return self.head(self.b(x))


# 12 comprehension
class S12(Base):
    def forward(self, x):
        x = self.a(x)
        tops = [row.max().item() for row in x]
        x = torch.stack([row * t for row, t in zip(x, tops, strict=False)])
        return self.head(self.b(x))


# 13 mask index in the middle of an expression
class S13(Base):
    def forward(self, x):
        x = self.a(x)
        x = x - x[x > 0].mean()
        return self.head(self.b(x))


# 14 literal to device inside a long return expression
class S14(Base):
    def forward(self, x):
        return self.head(self.b(self.a(x) * torch.tensor([0.5, 2.0], device=x.device).repeat(8)))


# 15 attention mask from lengths list
class S15(Base):
    def forward(self, x, lens):
        x = self.a(x)
        mask = torch.arange(x.shape[1], device=x.device) < lens.max().item()
        x = x * mask[None, :, None]
        return self.head(self.b(x))


# 16 generator-free: repeat_interleave
class S16(Base):
    def forward(self, x, lens):
        x = self.b(self.a(x))
        rows = torch.repeat_interleave(torch.arange(2, device=x.device), lens)
        y = x.flatten(0, 1)[:2]
        return self.head(x).sum() + rows.sum() + y.sum()


# 17 logging f-string
class S17(Base):
    def forward(self, x):
        x = self.a(x)
        self.message = f"norm {x.norm():.3f}"
        return self.head(self.b(x))


# 18 early return
class S18(Base):
    def forward(self, x):
        x = self.a(x)
        if torch.isinf(x).any():
            return torch.zeros(2, 6, 8, device=x.device)
        return self.head(self.b(x))


def _plain(cls, *more):
    def factory(device):
        torch.manual_seed(0)
        model = cls().to(device).requires_grad_(False)
        return model, (X(device), *(m(device) for m in more))

    return factory


def lens(device):
    return torch.tensor([3, 5], device=device)


s1, s2, s5, s6, s7, s8, s9, s10 = map(_plain, (S1, S2, S5, S6, S7, S8, S9, S10))
s12, s13, s14, s17, s18 = map(_plain, (S12, S13, S14, S17, S18))
s15, s16 = _plain(S15, lens), _plain(S16, lens)
s3 = _plain(S3, lambda device: torch.zeros(2, 6, dtype=torch.long, device=device))


def s4(device):
    with torch.inference_mode():
        model = S4().to(device)
        x = X(device)

    def step(x):
        with torch.inference_mode():
            return model(x)

    return step, (x,)


# 11 closure: step nested in factory with no_grad decorator
def s11(device):
    model = Base().to(device)

    @torch.no_grad()
    def step(x):
        x = model.a(x)
        if x.max() > 3:
            x = x / 2
        return model.head(model.b(x))

    return step, (X(device),)


# 19 helper closure within the factory
def s19(device):
    model = Base().to(device).requires_grad_(False)
    limit = 2.0

    def bounded(x):
        top = x.max().item()
        return x * (limit / max(top, limit))

    def step(x):
        return model.head(model.b(bounded(model.a(x))))

    return step, (X(device),)


# 20 training step with a checked loss
def s20(device):
    model = Base().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.mse_loss(model.head(model.b(model.a(x))), y)
        loss.backward()
        if not math.isfinite(loss.item()):
            return loss.detach()
        opt.step()
        return loss.detach()

    return step, (X(device), X(device, 2, 6, 8))


# 21 inference_mode decorator on forward method, private
class S21(Base):
    @torch.inference_mode()
    def forward(self, x):
        x = self.a(x)
        k = int(x.argmax())
        x = x + k
        return self.head(self.b(x))


s21 = _plain(S21)


# 22 lambda-held & one-liner def in closure
def s22(device):
    model = Base().to(device).requires_grad_(False)

    def step(x): return model.head(model.b(model.a(x) / float(x.abs().max())))  # fmt: skip

    return step, (X(device),)
