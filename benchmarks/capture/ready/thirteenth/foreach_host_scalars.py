"""Hand-written multi-tensor Lamb-like optimizer: the ratios of the layers are one host tensor of scalars."""
import torch
import torch.nn as nn

import graphsafe


class LayerwiseRates:
    """Layer-wise rate decay for fine-tuning: lower layers learn more slowly, and thaw at milestones."""

    def __init__(self, parameters, base=0.02, decay=0.8):
        self.parameters = list(parameters)
        self.moments = [torch.zeros_like(p) for p in self.parameters]
        self.seconds = [torch.ones_like(p) for p in self.parameters]
        n = len(self.parameters)
        self.rates = torch.tensor([-base * decay ** (n - 1 - i) for i in range(n)])

    def milestone(self, factor):
        self.rates.mul_(factor)

    @torch.no_grad()
    def step(self):
        grads = [p.grad for p in self.parameters]
        torch._foreach_lerp_(self.moments, grads, 0.1)
        torch._foreach_mul_(self.seconds, 0.98)
        torch._foreach_addcmul_(self.seconds, grads, grads, 0.02)
        roots = torch._foreach_sqrt(self.seconds)
        torch._foreach_add_(roots, 1e-6)
        torch._foreach_addcdiv_(self.parameters, self.moments, roots, self.rates)
        torch._foreach_zero_(grads)


def build(device):
    model = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3)).to(device)
    optimizer = LayerwiseRates(model.parameters())
    x, y = torch.randn(32, 20, device=device), torch.randn(32, 3, device=device)

    def step(x, y):
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(32, 20))
        args[1].copy_(torch.sin(3 * args[0][:, :3].cpu()))
        if k in (75, 150):
            optimizer.milestone(0.2)

    return graphsafe.Step(step, (x, y), {}, refresh=refresh)
