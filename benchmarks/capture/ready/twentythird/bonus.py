import copy
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from graphsafe import Step


def build_rope_late(device, batch=4):
    """Faulty: the rotary table of 2,048 rows is replaced by a longer one when the position passes it, late in a long session."""
    rope = {"length": 0}

    def ensure(length):
        if length > rope["length"]:
            rope["length"] = max(length, 2 * rope["length"])
            angle = torch.outer(torch.arange(rope["length"]).float(), 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16))
            rope["cos"], rope["sin"] = angle.cos().to(device), angle.sin().to(device)

    ensure(2048)
    proj = nn.Linear(16, 16).to(device).requires_grad_(False)
    session = {"position": 100}

    def step(x, positions):
        cos, sin = rope["cos"][positions], rope["sin"][positions]
        a, b = proj(x).chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def refresh(args, kwargs, k):
        session["position"] += 1
        ensure(session["position"] + 1)
        args[0].copy_(torch.randn(batch, 16))
        args[1].fill_(session["position"])

    return Step(step, (torch.randn(batch, 16, device=device), torch.full((batch,), 100, device=device)), refresh=refresh)


@lru_cache(maxsize=2)
def causal_bias(n, device):
    return torch.full((n, n), float("-inf"), device=device).triu(1)


def attend(x, w):
    q, k, v = (x @ w).chunk(3, -1)
    return ((q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5 + causal_bias(x.shape[-2], x.device)).softmax(-1) @ v


def build_mask_evicted(device):
    """Faulty: the mask lives in a small cache by length, and eager calls of other lengths evict the tensor that the graph reads."""
    w = torch.randn(12, 36, device=device) * 0.3

    def step(x):
        return attend(x, w)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8, 12))
        if k % 5 == 4:  # a prompt of another length runs without the graph
            for n in (10 + k % 7, 30 + k % 5, 50):
                attend(torch.randn(1, n, 12, device=device), w)

    return Step(step, (torch.randn(2, 8, 12, device=device),), refresh=refresh)


class Scratch:
    def __init__(self, device):
        self.buffer, self.device = torch.empty(0, device=device), device

    def take(self, rows, cols):
        if self.buffer.numel() < rows * cols:
            self.buffer = torch.empty(rows * cols, device=self.device)
        return self.buffer[: rows * cols].view(rows, cols)


def build_scratch_grow(device):
    """Faulty: a larger eager prompt replaces the shared scratch buffer, so the graph goes on writing into freed memory."""
    scratch = Scratch(device)
    w1, w2 = torch.randn(12, 32, device=device), torch.randn(32, 12, device=device)

    def mlp(x):
        h = scratch.take(x.shape[0], 32)
        torch.matmul(x, w1, out=h)
        return h.relu_() @ w2

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12))
        if k % 10 == 9:
            mlp(torch.randn(8 + k, 12, device=device))

    return Step(mlp, (torch.randn(4, 12, device=device),), refresh=refresh)


def train_data(device):
    return torch.randn(8, 12, device=device), torch.randint(0, 5, (8,), device=device)


def fill(args, kwargs, k):
    args[0].copy_(torch.randn(8, 12))
    args[1].copy_(torch.randint(0, 5, (8,)))


def build_checkpoint(device):
    """Faulty: checkpointing with dropout reads and sets the generator's state inside the capture, which CUDA refuses."""
    block = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 12)).to(device)
    head = nn.Linear(12, 5).to(device)
    opt = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.05)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(head(x + checkpoint(block, x, use_reentrant=False)), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return Step(step, train_data(device), refresh=fill)


def make_step(model, opt):
    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return step


def net(device):
    return nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 5)).to(device)


def build_opt_clear(device):
    """Faulty: at a warm restart the loop empties the optimizer's state, and the graph keeps the old momentum."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return Step(make_step(model, opt), train_data(device), refresh=fill, events={"warm restart": lambda: opt.state.clear()})


def build_autoclip(device):
    """Faulty: the loop reads the gradients' norm and then drops them, but after a replay there is no .grad to read."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    limit = torch.full((), 1.0, device=device)
    norms = []

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        for p in model.parameters():
            p.grad.mul_(factor)
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        if grads:
            norms.append(torch.stack([g.norm() for g in grads]).norm().item())
            limit.fill_(1.1 * sorted(norms)[len(norms) // 2])
        opt.zero_grad(set_to_none=True)
        fill(args, kwargs, k)

    return Step(step, train_data(device), refresh=refresh)


def build_lr_table(device):
    """Faulty: the loop assigns a new element of a schedule tensor to the group's rate, and the graph reads the element of the capture."""
    model = net(device)
    table = torch.linspace(0.1, 0.001, 400, device=device)
    opt = torch.optim.Adam(model.parameters(), lr=table[0], capturable=True)

    def refresh(args, kwargs, k):
        for group in opt.param_groups:
            group["lr"] = table[min(k, 399)]
        fill(args, kwargs, k)

    return Step(make_step(model, opt), train_data(device), refresh=refresh)


def build_averaged_model(device):
    """Faulty: AveragedModel compares its counter, a tensor on the device, in Python in each update."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    inner = make_step(model, opt)

    def step(x, y):
        loss = inner(x, y)
        average.update_parameters(model)
        return loss

    return Step(step, train_data(device), refresh=fill)


def build_cpu_lr(device):
    """Faulty: the rate is a tensor on the CPU, which a kernel gets as a constant, so the scheduler's fill never reaches the graph."""
    model = net(device)
    opt = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2), capturable=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=300)
    step = make_step(model, opt)

    def refresh(args, kwargs, k):
        sched.step()
        fill(args, kwargs, k)

    return Step(step, train_data(device), refresh=refresh)


class Temperature(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(12, 20)
        self.inverse = torch.tensor(1.0)

    def forward(self, h):
        logits = self.head(h) * self.inverse
        return logits.log_softmax(-1)


def build_cpu_temperature(device):
    """Faulty: the temperature is a zero-dimensional CPU tensor that each request fills, and a kernel takes its value as a constant."""
    model = Temperature().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 12))
        if k % 8 == 0:
            model.inverse.fill_(1.0 / (0.5 + (k % 24) / 24))

    return Step(model, (torch.randn(4, 12, device=device),), refresh=refresh)


class Prefetcher:
    def __init__(self, device):
        self.buffers = [torch.randn(4, 12, device=device) for _ in range(2)]
        self.current = self.buffers[0]
        self.n = 0

    def preload(self):
        self.n += 1
        self.buffers[self.n % 2].copy_(torch.randn(4, 12))
        self.current = self.buffers[self.n % 2]


def build_prefetch(device):
    """Faulty: the loop alternates between two input buffers, and the graph reads the one of the capture."""
    model, pre = net(device).requires_grad_(False), Prefetcher(device)
    return Step(lambda: model(pre.current), refresh=lambda args, kwargs, k: pre.preload())


_RANGE = {}


class FakeQuant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, key):
        top = x.detach().abs().amax()
        _RANGE[key] = torch.maximum(_RANGE[key] * 0.98, top) if key in _RANGE else top
        s = _RANGE[key] / 127
        return (x / s).round().clamp(-127, 127) * s

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def build_global_range(device):
    """Faulty: the decayed range is kept in a module's global dict as a new tensor each step, so a replay decays that of the capture."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    return Step(make_step(lambda x: model(FakeQuant.apply(x, "in")), opt), train_data(device), refresh=fill)


def decode_loop(cell, head, x, length, host):
    h = torch.zeros(2, 16, device=x.device)
    pos = torch.zeros(1, device=x.device)
    n = 0
    while True:
        phase = torch.sin(pos * 0.1) if not host else torch.full_like(pos, n * 0.1).sin()
        h.copy_(cell(x + phase, h))
        pos.add_(1)
        n += 1
        yield head(h)


def build_stream_host(device):
    """Faulty: the position is a local number of a Python generator, which replays do not resume."""
    cell, head = nn.GRUCell(12, 16).to(device).requires_grad_(False), nn.Linear(16, 9).to(device).requires_grad_(False)
    x = torch.randn(2, 12, device=device)
    stream = decode_loop(cell, head, x, 512, True)
    return Step(lambda x: next(stream), (x,), refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(2, 12)))


def build_stream_device(device):
    """Sound: hidden state and position are tensors, local to a Python generator, that each step writes in place."""
    cell, head = nn.GRUCell(12, 16).to(device).requires_grad_(False), nn.Linear(16, 9).to(device).requires_grad_(False)
    x = torch.randn(2, 12, device=device)
    stream = decode_loop(cell, head, x, 512, False)
    return Step(lambda x: next(stream), (x,), refresh=lambda args, kwargs, k: args[0].copy_(torch.randn(2, 12)))


def build_scaler_outside(device):
    """Sound: the graph scales the loss and accumulates static gradients; unscaling, stepping and updating run in the loop."""
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=20)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    scaler.scale(torch.zeros((), device=device))

    def forward_backward(x, y):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        return loss.detach()

    def refresh(args, kwargs, k):
        if k > 0:
            scaler.step(opt)
            scaler.update()
        opt.zero_grad(set_to_none=False)
        fill(args, kwargs, k)

    return Step(forward_backward, train_data(device), refresh=refresh)


def build_loader(device):
    """Sound: the loop copies each batch of a DataLoader into static inputs, and starts the next epoch when it ends."""
    model = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 5)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    loader = DataLoader(TensorDataset(torch.randn(80, 12), torch.randint(0, 5, (80,))), batch_size=8, shuffle=True)
    state = {"it": iter(loader), "epoch": 0}

    def step(x, y):
        with torch.profiler.record_function("train_step"):
            opt.zero_grad(set_to_none=False)
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            opt.step()
            return loss.detach(), (logits.argmax(1) == y).float().mean()

    def refresh(args, kwargs, k):
        try:
            x, y = next(state["it"])
        except StopIteration:
            state["epoch"] += 1
            state["it"] = iter(loader)
            x, y = next(state["it"])
        args[0].copy_(x)
        args[1].copy_(y)

    return Step(step, train_data(device), refresh=refresh)
