from collections import namedtuple
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe

TrainOut = namedtuple("TrainOut", "loss scale")


class ScaledAdam:
    def __init__(self, params):
        self.params = list(params)
        self.origin = [p.detach().clone() for p in self.params]
        self.m = [torch.zeros_like(p) for p in self.origin]
        self.v = [torch.zeros_like(p) for p in self.origin]
        self.t = torch.zeros((), device=self.params[0].device)
        self.scale = torch.full((), 64.0, device=self.params[0].device)

    @torch.no_grad()
    def restore(self):
        for p, o in zip(self.params, self.origin):
            p.copy_(o)
            p.grad = None
        for s in self.m + self.v + [self.t]:
            s.zero_()
        self.scale.fill_(64.0)

    def apply(self, grads):
        self.t.add_(1.0)
        torch._foreach_lerp_(self.m, grads, 0.1)
        torch._foreach_mul_(self.v, 0.99)
        torch._foreach_addcmul_(self.v, grads, grads, 0.01)
        fix1 = 1 - torch.exp2(self.t * -0.152)
        fix2 = 1 - torch.exp2(self.t * -0.0145)
        for p, m, v in zip(self.params, self.m, self.v):
            p.sub_(0.01 * (m / fix1) / ((v / fix2).sqrt() + 1e-8))

    @torch.no_grad()
    def step(self):
        grads = [p.grad / self.scale for p in self.params]
        worst = torch.stack(torch._foreach_norm(grads)).max()
        if torch.isfinite(worst):
            self.apply(grads)
        else:
            self.scale.mul_(0.5)


def build_scaled_adam(device):
    torch.manual_seed(81)
    net = nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Linear(24, 4, bias=False)).to(device)
    optim = ScaledAdam(net.parameters())

    def step(x, y):
        for p in net.parameters():
            p.grad = None
        loss = F.cross_entropy(net(x), y)
        (loss * optim.scale).backward()
        optim.step()
        return TrainOut(loss.detach(), optim.scale.clone())

    x = torch.randn(16, 10, device=device)
    y = torch.randint(0, 4, (16,), device=device)
    return graphsafe.Step(step, (x, y), {}, reset=optim.restore)


class NormLoggedTrainer:
    def __init__(self, device):
        torch.manual_seed(82)
        self.enc = nn.Linear(12, 20).to(device)
        self.dec = nn.Linear(20, 12).to(device)
        self.max_norm = 0.3
        self.lr = 0.05

    def parameters(self):
        return [*self.enc.parameters(), *self.dec.parameters()]

    def forward(self, x):
        z = torch.tanh(self.enc(x))
        return self.dec(z + 0.05 * torch.randn_like(z)), z

    def __shrink(self, grads):
        total = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
        norm = total.item()
        return norm, min(1.0, self.max_norm / (norm + 1e-6))

    def __call__(self, x):
        recon, z = self.forward(x)
        loss = F.mse_loss(recon, x) + 1e-3 * z.abs().mean()
        grads = torch.autograd.grad(loss, self.parameters())
        norm, factor = self.__shrink(grads)
        with torch.no_grad():
            for p, g in zip(self.parameters(), grads):
                p.sub_(g, alpha=self.lr * factor)
            drift = torch.stack([p.abs().mean() for p in self.parameters()])
        return loss.detach(), norm, drift


def build_norm_logged(device):
    trainer = NormLoggedTrainer(device)
    torch.manual_seed(83)
    return trainer, (torch.randn(16, 12, device=device),)


@dataclass
class EmaReport:
    loss: torch.Tensor
    gap: torch.Tensor


class EmaTrainer:
    def __init__(self, device):
        torch.manual_seed(84)
        self.live = [
            (torch.randn(9, 16, device=device) * 0.3).requires_grad_(),
            torch.zeros(16, device=device, requires_grad=True),
            (torch.randn(16, 1, device=device) * 0.3).requires_grad_(),
        ]
        self.first = [p.detach().clone() for p in self.live]
        self.slow = [p.detach().clone() for p in self.live]
        self.steps = 0

    def reset(self):
        self.steps = 0
        with torch.no_grad():
            for p, s, f in zip(self.live, self.slow, self.first):
                p.copy_(f)
                s.copy_(f)

    def predict(self, params, x):
        return (F.softplus(x @ params[0] + params[1]) @ params[2]).squeeze(-1)

    def decay(self):
        return min(0.99, (1 + self.steps) / (10 + self.steps))

    def __call__(self, x, y):
        pred = self.predict(self.live, x)
        loss = F.huber_loss(pred, y)
        grads = torch.autograd.grad(loss, self.live)
        self.steps += 1
        with torch.no_grad():
            torch._foreach_sub_(self.live, grads, alpha=0.05)
            torch._foreach_lerp_(self.slow, self.live, 1 - self.decay())
            gap = (self.predict(self.slow, x) - self.predict(self.live, x)).abs().mean()
        return EmaReport(loss.detach(), gap)


def build_ema_warmup(device):
    trainer = EmaTrainer(device)
    torch.manual_seed(85)
    x = torch.randn(20, 9, device=device)
    y = torch.randn(20, device=device)
    return graphsafe.Step(trainer, (x, y), {}, reset=trainer.reset)


def build_distilled_student(device):
    torch.manual_seed(86)
    with torch.inference_mode():
        teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 6)).to(device).requires_grad_(False)
    student = nn.Linear(8, 6).to(device)
    quantiles = [0.1, 0.3, 0.5, 0.7, 0.9, 0.95]

    def soft_targets(x):
        with torch.inference_mode():
            return (teacher(x) / 2.0).softmax(-1)

    def step(x):
        goal = soft_targets(x).clone()
        out = student(x)
        match = F.kl_div((out / 2.0).log_softmax(-1), goal, reduction="batchmean")
        levels = torch.tensor(quantiles, device=x.device)
        error = goal.cumsum(-1) - out.sigmoid()
        pinball = torch.maximum(levels * error, (levels - 1) * error).mean()
        loss = 4.0 * match + pinball
        gw, gb = torch.autograd.grad(loss, (student.weight, student.bias))
        with torch.no_grad():
            student.weight.sub_(gw.sign() * 1e-3)
            student.bias.sub_(gb.sign() * 1e-3)
        return loss.detach()

    return step, (torch.randn(18, 8, device=device),)


class HardExampleMiner:
    def __init__(self, device):
        torch.manual_seed(87)
        self.w1 = (torch.randn(7, 20, device=device) * 0.4).requires_grad_()
        self.w2 = (torch.randn(20, 3, device=device) * 0.4).requires_grad_()
        self.speed = [torch.zeros_like(self.w1.detach()), torch.zeros_like(self.w2.detach())]

    def __losses(self, x, y):
        h = F.leaky_relu(x @ self.w1, 0.1)
        h = h / (h.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return F.cross_entropy(h @ self.w2, y, reduction="none", label_smoothing=0.1)

    def __select(self, losses):
        cut = losses.detach().mean()
        hard = losses[losses.detach() >= cut]
        return hard.mean()

    def __call__(self, x, y):
        x = (x - x.mean(0)) / x.std(0).clamp_min(1e-4)
        losses = self.__losses(x, y)
        loss = self.__select(losses)
        grads = torch.autograd.grad(loss, (self.w1, self.w2))
        with torch.no_grad():
            for p, s, g in zip((self.w1, self.w2), self.speed, grads):
                s.mul_(0.9).add_(g + 1e-4 * p)
                p.sub_(0.03 * s)
        return losses.detach(), loss.detach()


def build_hard_examples(device):
    miner = HardExampleMiner(device)
    torch.manual_seed(88)
    x = torch.randn(24, 7, device=device)
    y = torch.randint(0, 3, (24,), device=device)
    return miner, (x, y)
