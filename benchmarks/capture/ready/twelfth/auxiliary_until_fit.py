"""A multi-task trainer. The auxiliary reconstruction is dropped for good when its running loss has become small."""

import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, device):
        self.encoder = nn.Linear(10, 6).to(device)
        self.decoder = nn.Linear(6, 10).to(device)
        self.head = nn.Linear(6, 1).to(device)
        self.params = [*self.encoder.parameters(), *self.decoder.parameters(), *self.head.parameters()]
        self.running = torch.ones((), device=device)
        self.auxiliary = True

    def step(self, x, y):
        code = self.encoder(x)
        loss = nn.functional.mse_loss(self.head(code).squeeze(-1), y)
        if self.auxiliary:
            rebuilt = nn.functional.mse_loss(self.decoder(code), x)
            self.running.lerp_(rebuilt.detach().clamp(max=0.5), 0.05)
            loss = loss + 0.5 * rebuilt
        grads = torch.autograd.grad(loss, self.params, allow_unused=True)
        with torch.no_grad():
            for p, g in zip(self.params, grads, strict=False):
                if g is not None:
                    p.sub_(g, alpha=0.05)
        return loss.detach()


def build(device):
    trainer = Trainer(device)
    mixing = torch.randn(3, 10, generator=torch.Generator().manual_seed(3)) * 0.3

    def refresh(args, kwargs, k):
        x = torch.randn(16, 3) @ mixing
        args[0].copy_(x)
        args[1].copy_(x[:, 0])
        if trainer.auxiliary and trainer.running.item() < 0.12:
            trainer.auxiliary = False

    args = (torch.randn(16, 10, device=device), torch.randn(16, device=device))
    return graphsafe.Step(trainer.step, args, refresh=refresh)
