"""Each epoch makes its optimizer anew; plain SGD keeps nothing from step to step, and the rate never changes."""

import torch

import graphsafe


class Fit:
    def __init__(self, device):
        self.model = torch.nn.Linear(6, 2).to(device)
        self.begin_epoch()

    def begin_epoch(self):
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, weight_decay=1e-3, foreach=True)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.huber_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build(device):
    fit = Fit(device)

    def refresh(args, kwargs, k):
        if k % 10 == 9:
            fit.begin_epoch()
        args[0].copy_(torch.randn(8, 6))
        args[1].copy_(torch.randn(8, 2))

    args = (torch.randn(8, 6, device=device), torch.randn(8, 2, device=device))
    return graphsafe.Step(fit.step, args, refresh=refresh)
