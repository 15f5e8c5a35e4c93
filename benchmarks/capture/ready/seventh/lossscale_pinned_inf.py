"""Mixed-precision training; the overflow flag of the last step arrives in pinned memory, without a wait."""
import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, device):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1)).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2, capturable=True)
        self.flag = torch.zeros(1, pin_memory=torch.cuda.is_available())
        self.overflow = memoryview(self.flag.numpy())
        self.scale = torch.full((), 1024.0, device=device)

    def backoff(self):
        self.scale.mul_(0.5)

    def step(self, x, y):
        if self.overflow[0] > 0:  # LINE: last step's flag, read on the host
            self.backoff()
        self.opt.zero_grad(set_to_none=False)
        loss = (self.model(x) - y).square().mean()
        (loss * self.scale).backward()
        bad = torch.zeros((), device=x.device)
        for p in self.model.parameters():
            p.grad.div_(self.scale)
            bad = torch.maximum(bad, (p.grad.abs().amax() > 1e3).float())
            p.grad.mul_(1 - bad).nan_to_num_(0.0, 0.0, 0.0)
        self.flag.copy_(bad.view(1), non_blocking=True)
        self.opt.step()
        return loss.detach(), self.scale.clone()


def build(device):
    trainer = Trainer(device)
    x, y = torch.randn(8, 16, device=device), torch.randn(8, 1, device=device)

    def refresh(args, kwargs, k):
        batch = torch.randn(8, 16)
        if k % 24 == 17:  # a corrupt record, as in every real corpus
            batch[0] *= 1e6
        args[0].copy_(batch)
        args[1].copy_(torch.randn(8, 1))

    return graphsafe.Step(trainer.step, (x, y), refresh=refresh)
