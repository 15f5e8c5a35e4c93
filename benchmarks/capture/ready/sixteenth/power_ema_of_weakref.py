"""Post-hoc EMA with a power-function profile: the decay comes from a host counter of the trainer."""
import weakref

import torch

import graphsafe


class Denoiser(torch.nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.SiLU(), torch.nn.Linear(dim, dim))
        self.seen = 0

    def forward(self, x):
        return self.net(x)


class PowerEMA:
    def __init__(self, model, gamma=6.94):
        self.model = weakref.ref(model)
        self.gamma = gamma
        self.average = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self):
        model = self.model()
        decay = (1 - 1 / (model.seen + 1)) ** (self.gamma + 1)
        for mean, p in zip(self.average, model.parameters(), strict=True):
            mean.copy_(p + (mean - p) * decay)


def build(device):
    model = Denoiser().to(device)
    ema = PowerEMA(model)
    params = list(model.parameters())

    def step(clean, noise):
        model.seen += 1
        loss = (model(clean + noise) - clean).square().mean()
        grads = torch.autograd.grad(loss, params)
        torch._foreach_add_([p.detach() for p in params], list(grads), alpha=-0.3)
        ema.update()
        return loss.detach(), ema.average[0].clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 6))
        args[1].copy_(0.5 * torch.randn(8, 6))

    return graphsafe.Step(
        step, (torch.randn(8, 6, device=device), torch.randn(8, 6, device=device)), refresh=refresh
    )
