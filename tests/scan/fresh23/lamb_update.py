"""LAMB for a small classifier: trust ratios per tensor, all state on the device."""
import torch
from torch import nn


class Lamb:
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, decay=0.01, warmup=200):
        self.params = list(params)
        device = self.params[0].device
        self.betas, self.eps, self.decay = betas, eps, decay
        self.lr = torch.full((), lr, device=device)
        self.step_count = torch.zeros((), device=device)
        self.beta_vec = torch.tensor(betas, device=device)
        self.warmup = float(warmup)
        self.exp_avg = [torch.zeros_like(p) for p in self.params]
        self.exp_sq = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, grads):
        self.step_count.add_(1.0)
        bias1, bias2 = (1.0 - self.beta_vec.pow(self.step_count)).unbind(0)
        rate = self.lr * (self.step_count / self.warmup).clamp(max=1.0)
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        shrink = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        b1, b2 = self.betas
        for p, g, m, v in zip(self.params, grads, self.exp_avg, self.exp_sq):
            g = g * shrink
            m.lerp_(g, 1.0 - b1)
            v.mul_(b2).addcmul_(g, g, value=1.0 - b2)
            update = (m / bias1) / ((v / bias2).sqrt() + self.eps)
            if p.ndim > 1:
                update = update + self.decay * p
            weight_norm, update_norm = p.norm(), update.norm()
            trust = torch.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, torch.ones_like(norm))
            p.sub_(update * (rate * trust))

    def set_lr(self, value):
        self.lr.fill_(value)


class Classifier(nn.Module):
    def __init__(self, features=12, classes=5, width=32):
        super().__init__()
        self.inp = nn.Linear(features, width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.norm(torch.tanh(self.inp(x))))


class Session:
    def __init__(self, device):
        torch.manual_seed(8)
        self.model = Classifier().to(device)
        self.opt = Lamb(self.model.parameters(), lr=0.02)
        self.ema_loss = torch.zeros((), device=device)

    def __call__(self, x, target):
        logits = self.model(x)
        loss = nn.functional.cross_entropy(logits, target, label_smoothing=0.05)
        grads = torch.autograd.grad(loss, self.opt.params)
        self.opt.step(grads)
        with torch.no_grad():
            self.ema_loss.lerp_(loss, 0.1)
            hits = (logits.argmax(-1) == target).sum()
        return loss.detach(), hits


def build(device):
    session = Session(device)
    x = torch.randn(20, 12, device=device)
    target = torch.randint(0, 5, (20,), device=device)
    return session, (x, target)
