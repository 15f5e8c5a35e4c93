"""AdamW whose update count is a device tensor."""

from collections.abc import Iterable

import torch


class DeviceAdamW:
    def __init__(self, params: Iterable[torch.Tensor], lr: float, betas=(0.9, 0.98), eps=1e-8, decay=0.01):
        self.params = list(params)
        device = self.params[0].device
        self.lr = torch.full((), lr, device=device)
        self.betas, self.eps, self.decay = betas, eps, decay
        self.first = [torch.zeros_like(p) for p in self.params]
        self.second = [torch.zeros_like(p) for p in self.params]
        self.power1 = torch.ones((), device=device)
        self.power2 = torch.ones((), device=device)
        self.calls = 0

    def set_lr(self, lr: float) -> None:
        self.lr.fill_(lr)

    @torch.no_grad()
    def apply(self, grads) -> None:
        self.calls += 1
        beta1, beta2 = self.betas
        self.power1.mul_(beta1)
        self.power2.mul_(beta2)
        rate = self.lr / (1 - self.power1)
        fix = (1 - self.power2).sqrt()
        for p, g, m, v in zip(self.params, grads, self.first, self.second):
            m.lerp_(g, 1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            p.mul_(1 - self.lr * self.decay)
            p.sub_(rate * m / (v.sqrt() / fix + self.eps))
