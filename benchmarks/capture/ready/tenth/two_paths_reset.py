"""A decoder with two paths: eager steps take the position from the scheduler, captured ones count it on the device."""
import torch
from torch import nn

import graphsafe


class Decoder(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.project = nn.Linear(width, width).to(device)
        self.frequency = (1.0 / (10.0 ** (torch.arange(width) / width))).to(device)
        self.position = 0  # of the scheduler
        self.counted = torch.zeros((), device=device)

    def begin(self, position):
        self.position = position

    def forward(self, x):
        if torch.cuda.is_current_stream_capturing():
            angle = self.counted * self.frequency
        else:
            angle = self.frequency * float(self.position)
        out = torch.tanh(self.project(x)) * torch.cos(angle)
        self.counted.add_(1.0)
        return out


class Scheduler:
    def __init__(self, model, length=37):
        self.model, self.length, self.position = model, length, 0

    def schedule(self, k):
        if k == 0:
            self.model.counted.zero_()
        self.position = k % self.length  # a request ends, the next one begins
        self.model.begin(self.position)


def build(device, batch=4, width=16):
    model = Decoder(width, device).eval().requires_grad_(False)
    scheduler = Scheduler(model)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        scheduler.schedule(k)

    return graphsafe.Step(model, (x,), refresh=refresh)
