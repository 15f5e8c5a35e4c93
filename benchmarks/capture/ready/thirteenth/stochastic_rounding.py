"""Low-precision training: weights in bfloat16 only, updates rounded stochastically with bits from the device generator."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def round_stochastically(target, exact):
    """Add random bits below the ones that bfloat16 keeps, then cut."""
    bits = exact.view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, dtype=torch.int32, device=bits.device)
    target.copy_(((bits + noise) & -65536).view(torch.float32))


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(24, 64), nn.Linear(64, 6)

    def forward(self, x):
        return self.b(F.relu(self.a(x)))


def build(device):
    model = Tiny().to(device, torch.bfloat16)
    parameters = list(model.parameters())
    momenta = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
    x, y = torch.zeros(32, 24, device=device, dtype=torch.bfloat16), torch.zeros(32, dtype=torch.long, device=device)

    def step(x, y):
        logits = model(x).float()
        loss = F.cross_entropy(logits, y)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, m, g in zip(parameters, momenta, gradients):
                m.mul_(0.9).add_(g.float())
                round_stochastically(p, p.float() - 0.01 * m)
        return loss.detach(), logits.detach()

    def refresh(args, kwargs, k):
        x = torch.randn(32, 24)
        args[0].copy_(x)
        args[1].copy_(x[:, :6].argmax(-1))

    return graphsafe.Step(step, (x, y), {}, refresh=refresh)
