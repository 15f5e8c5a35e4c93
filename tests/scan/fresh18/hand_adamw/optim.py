"""A small AdamW over a flat list of parameters, built on the foreach kernels."""

from dataclasses import dataclass

import torch


@dataclass
class AdamConfig:
    lr: float = 1e-2
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    decay: float = 0.01


class FlatAdamW:
    def __init__(self, params: list[torch.Tensor], config: AdamConfig):
        self.params = params
        self.config = config
        self.first = [torch.zeros_like(p) for p in params]
        self.second = [torch.zeros_like(p) for p in params]
        self.updates = 0

    def corrections(self) -> tuple[float, float]:
        c = self.config
        return 1 - c.beta1**self.updates, 1 - c.beta2**self.updates

    @torch.no_grad()
    def apply(self, grads: list[torch.Tensor]) -> None:
        c = self.config
        self.updates += 1
        fix1, fix2 = self.corrections()
        torch._foreach_lerp_(self.first, grads, 1 - c.beta1)
        torch._foreach_mul_(self.second, c.beta2)
        torch._foreach_addcmul_(self.second, grads, grads, 1 - c.beta2)
        denom = torch._foreach_sqrt(self.second)
        torch._foreach_div_(denom, fix2**0.5)
        torch._foreach_add_(denom, c.eps)
        torch._foreach_mul_(self.params, 1 - c.lr * c.decay)
        torch._foreach_addcdiv_(self.params, self.first, denom, -c.lr / fix1)
