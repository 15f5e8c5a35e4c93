"""Mixed precision in two halves: forward and scaled backward are the step, unscaling, the optimizer and the scale are the loop's."""
import torch
from torch import nn

import graphsafe


class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.02, momentum=0.9)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=256.0, growth_interval=5)
        self.scaler.scale(torch.zeros((), device=device))  # makes the scale's tensors
        for p in self.parameters:
            p.grad = torch.zeros_like(p)

    def step(self, x, y):
        for p in self.parameters:
            p.grad.zero_()
        loss = nn.functional.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        return loss.detach()

    def finish(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()


def build(device, batch=16, width=8):
    model = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, 1)).to(device)
    trainer = Trainer(model, device)
    x = torch.randn(batch, width).to(device)
    y = torch.randn(batch, 1).to(device)

    def refresh(args, kwargs, k):
        trainer.finish()  # with the gradients of the step before
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(args[0].sum(1, keepdim=True).sin())

    return graphsafe.Step(trainer.step, (x, y), refresh=refresh)
