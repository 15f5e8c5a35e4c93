import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


def mlp(device, d=12, h=24, out=5):
    return nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, out)).to(device)


def batch_refresh(shape, classes, then=None):
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(shape))
        args[1].copy_(torch.randint(0, classes, shape[:1]))
        if then is not None:
            then(k)

    return refresh


def data(device, n=8, d=12, classes=5):
    return torch.randn(n, d, device=device), torch.randint(0, classes, (n,), device=device)


class Trainer:
    def __init__(self, device, lr=0.05):
        self.model = mlp(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=500)
        self.smoothing = 0.1

    def train_step(self, x, y):
        self.opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(self.model(x), y, label_smoothing=self.smoothing)
        loss.backward()
        self.opt.step()
        return loss.detach()


def build_sgd_cosine(device):
    """Faulty: the scheduler writes a Python float into the parameter group, and the graph keeps the rate of the capture."""
    trainer = Trainer(device)
    x, y = data(device)
    return Step(trainer.train_step, (x, y), refresh=batch_refresh(x.shape, 5, lambda k: trainer.sched.step()))


def build_adam_tensor_lr(device):
    """Sound: the rate is a device tensor that the scheduler fills in place, and clipping stays on the device."""
    model = mlp(device)
    opt = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-2, device=device), capturable=True, foreach=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: min(1.0, (e + 1) / 20) * 0.5 * (1 + math.cos(math.pi * min(e, 400) / 400)))
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss.detach(), norm

    for _ in range(2):
        step(x, y)
        sched.step()
    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5, lambda k: sched.step()))


class ModelEma(nn.Module):
    def __init__(self, model, decay=0.999):
        super().__init__()
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.updates = decay, 0
        self.register_buffer("count", torch.zeros((), device=next(model.parameters()).device))

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        d = self.decay * (1 - math.exp(-self.updates / 2000))
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.mul_(d).add_(p, alpha=1 - d)

    @torch.no_grad()
    def update_on_device(self, model):
        self.count.add_(1)
        d = torch.clamp((1 + self.count) / (10 + self.count), max=self.decay)
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.lerp_(p, 1 - d)


def build_ema_ramp(device):
    """Faulty: the ramp of the decay is computed from a Python counter and frozen at capture (the ramp of YOLO)."""
    model = mlp(device)
    ema = ModelEma(model, 0.9999)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        ema.update(model)
        return loss.detach()

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5))


def build_ema_device(device):
    """Sound: the counter of the decay is a device tensor, so each replay computes the next decay."""
    model = mlp(device)
    ema = ModelEma(model, 0.999)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        ema.update_on_device(model)
        with torch.no_grad():
            return loss.detach(), ema.module(x)

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5))


class Accumulator:
    def __init__(self, device, every=4):
        self.model, self.every, self.micro = mlp(device), every, 0
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y) / self.every
        loss.backward()
        self.micro += 1
        if self.micro % self.every == 0:
            self.opt.step()
            self.opt.zero_grad(set_to_none=False)
        return loss.detach()


def build_accumulate(device):
    """Faulty: every fourth micro-batch steps the optimizer by a Python counter, and a replay does always or never."""
    acc = Accumulator(device)
    x, y = data(device)
    for p in acc.model.parameters():
        p.grad = torch.zeros_like(p)
    return Step(acc.step, (x, y), refresh=batch_refresh(x.shape, 5))


def build_accumulate_outside(device):
    """Sound: the graph only adds to static gradients, and the loop applies and clears them in place every fourth round."""
    acc = Accumulator(device)
    x, y = data(device)
    for p in acc.model.parameters():
        p.grad = torch.zeros_like(p)

    def micro(x, y):
        loss = F.cross_entropy(acc.model(x), y) / acc.every
        loss.backward()
        return loss.detach()

    def apply(k):
        if k % acc.every == acc.every - 1:
            acc.opt.step()
            acc.opt.zero_grad(set_to_none=False)

    return Step(micro, (x, y), refresh=batch_refresh(x.shape, 5, apply))


class DeviceScaler:
    """Dynamic loss scaling without a wait: skip and growth are selections on the device."""

    def __init__(self, device, init=2.0**10, growth_every=50):
        self.scale = torch.full((), init, device=device)
        self.good = torch.zeros((), device=device)
        self.growth_every = growth_every

    @torch.no_grad()
    def step(self, params, moms, lr):
        grads = [p.grad / self.scale for p in params]
        finite = torch.stack([g.isfinite().all() for g in grads]).all()
        for p, g, m in zip(params, grads, moms):
            g = torch.where(finite, g, torch.zeros_like(g))
            m.copy_(torch.where(finite, 0.9 * m + g, m))
            p.sub_(lr * torch.where(finite, m, torch.zeros_like(m)))
        self.good.copy_(torch.where(finite, self.good + 1, torch.zeros_like(self.good)))
        grow = self.good >= self.growth_every
        self.scale.copy_(torch.where(finite, torch.where(grow, self.scale * 2, self.scale), self.scale * 0.5))
        self.good.copy_(torch.where(grow, torch.zeros_like(self.good), self.good))
        return finite


def build_device_scaler(device):
    """Sound: overflow, skip and growth of the loss scale are decided by selections on the device."""
    model = mlp(device)
    params = list(model.parameters())
    moms = [torch.zeros_like(p) for p in params]
    scaler = DeviceScaler(device)
    x, y = data(device)

    def step(x, y):
        for p in params:
            if p.grad is not None:
                p.grad.zero_()
        loss = F.cross_entropy(model(x), y)
        (loss * scaler.scale).backward()
        finite = scaler.step(params, moms, 0.05)
        return loss.detach(), finite

    def poison(k):
        if k % 9 == 5:
            x[0, 0] = float("inf")

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5, poison))


class ReverseGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.lambd, None


class Dann(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(12, 16), nn.ReLU())
        self.label, self.domain = nn.Linear(16, 5), nn.Linear(16, 2)
        self.lambd = 0.0

    def forward(self, x):
        f = self.features(x)
        return self.label(f), self.domain(ReverseGrad.apply(f, self.lambd))


def build_dann(device, total=1000):
    """Faulty: the strength of the gradient's reversal is a float set by the training's progress, frozen in the backward."""
    model = Dann().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = data(device)
    domain = torch.tensor([0, 1] * 4).to(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        label, dom = model(x)
        loss = F.cross_entropy(label, y) + F.cross_entropy(dom, domain)
        loss.backward()
        opt.step()
        return loss.detach()

    def progress(k):
        model.lambd = 2.0 / (1.0 + math.exp(-10 * k / total)) - 1.0

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5, progress))


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, bits):
        hi = 2 ** (bits - 1) - 1
        q = x / scale
        ctx.save_for_backward(q, scale)
        ctx.hi = hi
        return q.round().clamp(-hi - 1, hi) * scale

    @staticmethod
    def backward(ctx, grad):
        q, scale = ctx.saved_tensors
        inside = (q >= -ctx.hi - 1) & (q <= ctx.hi)
        d_scale = torch.where(inside, q.round() - q, q.clamp(-ctx.hi - 1, ctx.hi)) * grad
        return grad * inside, d_scale.sum().reshape(scale.shape), None


class QatLinear(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.scale = nn.Parameter(torch.tensor(0.02))
        self.act_scale = nn.Parameter(torch.tensor(0.05))

    def forward(self, x):
        return F.linear(RoundSTE.apply(x, self.act_scale, 8), RoundSTE.apply(self.weight, self.scale, 4), self.bias)


def build_ste(device):
    """Sound: the learned scales are parameters on the device, and the only Python number, the bits, never changes."""
    model = nn.Sequential(QatLinear(12, 16), nn.ReLU(), QatLinear(16, 5)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5))


def build_opt_restore(device):
    """Faulty: restoring a checkpoint with optimizer.load_state_dict makes new moment tensors, and the graph updates the old ones."""
    model = mlp(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    step(x, y)
    saved = {"model": copy.deepcopy(model.state_dict()), "opt": copy.deepcopy(opt.state_dict())}

    def rewind():
        model.load_state_dict(saved["model"])
        opt.load_state_dict(saved["opt"])

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5), events={"rewind after a spike": rewind})


def build_reload(device):
    """Sound: the policy's weights are reloaded by load_state_dict, which copies into the tensors that the graph reads."""
    policy = mlp(device).eval()
    learner = mlp(torch.device("cpu"))
    value = nn.Linear(12, 1).to(device)
    versions = {"n": 0}

    @torch.no_grad()
    def act(obs):
        logits = policy(obs)
        return logits.argmax(-1), logits.log_softmax(-1), value(obs).squeeze(-1)

    def sync():
        versions["n"] += 1
        with torch.no_grad():
            for p in learner.parameters():
                p.add_(0.1 * torch.randn_like(p))
        policy.load_state_dict(learner.state_dict())

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 12))
        if k % 25 == 24:
            sync()

    return Step(act, (torch.randn(6, 12, device=device),), refresh=refresh, events={"weights from the learner": sync})


def build_unfreeze(device):
    """Faulty: the backbone is unfrozen after 40 iterations, but the graph holds the backward of the frozen model."""
    backbone = nn.Sequential(nn.Linear(12, 16), nn.ReLU()).to(device).requires_grad_(False)
    head = nn.Linear(16, 5).to(device)
    params = [*backbone.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, lr=0.05)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(head(backbone(x)), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def stage(k):
        if k == 40:
            backbone.requires_grad_(True)

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5, stage))


def build_bn_cumulative(device):
    """Faulty: batch norm with momentum None reads its counter of batches on the host in every training step."""
    model = nn.Sequential(
        nn.Conv1d(1, 6, 3, padding=1), nn.BatchNorm1d(6, momentum=None), nn.ReLU(), nn.Flatten(), nn.Linear(72, 5)
    ).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        logits = model(x[:, None])
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        return loss.detach(), logits.detach()

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5))


def build_autocast(device):
    """Sound: autocast is entered and left inside the step, so that weights are cast again in each replay."""
    model = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            logits = model(x)
            loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        opt.step()
        return loss.detach()

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5))


class DropSchedule:
    def __init__(self, model, top, over):
        self.drops = [m for m in model.modules() if isinstance(m, nn.Dropout)]
        self.top, self.over = top, over

    def set(self, k):
        for m in self.drops:
            m.p = self.top * min(1.0, k / self.over)


def build_drop_schedule(device):
    """Faulty: the dropout's rate is ramped by the loop as a Python float and stays that of the capture in the graph."""
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.0), nn.Linear(24, 5)).to(device)
    schedule = DropSchedule(model, 0.3, 100)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = data(device)

    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return Step(step, (x, y), refresh=batch_refresh(x.shape, 5, schedule.set))


def build_ema_swap(device):
    """Faulty: for evaluation the averaged weights are swapped in by exchanging .data, so the graph reads the other set of weights."""
    model = mlp(device).eval()
    ema = copy.deepcopy(model)
    with torch.no_grad():
        for p in ema.parameters():
            p.add_(0.05 * torch.randn_like(p))

    def swap():
        for p, e in zip(model.parameters(), ema.parameters()):
            p.data, e.data = e.data, p.data

    @torch.no_grad()
    def predict(x):
        logits = model(x)
        top = logits.softmax(-1).max(-1)
        return logits, top.values, top.indices

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12))

    return Step(predict, (torch.randn(8, 12, device=device),), refresh=refresh, events={"use the averaged weights": swap})
