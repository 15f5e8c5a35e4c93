"""An engine that shares its GPU with a trainer: at times it gives up the memory of its weights, and takes it back later."""
import torch
from torch import nn

import graphsafe


class SleepingEngine:
    def __init__(self, model):
        self.model = model
        self.saved = {}
        self.trainer = []

    def sleep(self):
        for name, p in self.model.named_parameters():
            self.saved[name] = p.detach().to("cpu", copy=True)
            p.untyped_storage().resize_(0)

    def train(self):  # stands for the trainer, which keeps its buffers
        device = next(iter(self.model.parameters())).device
        self.trainer = [torch.full(value.shape, 0.5, device=device) for value in self.saved.values()]

    def wake(self):
        for name, p in self.model.named_parameters():
            saved = self.saved[name]
            p.untyped_storage().resize_(saved.numel() * saved.element_size())
            p.copy_(saved)


def build(device, batch=4, width=64):
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
    model = model.to(device).eval().requires_grad_(False)
    engine = SleepingEngine(model)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 40 == 39:
            engine.sleep()
            engine.train()
            engine.wake()

    return graphsafe.Step(model, (x,), refresh=refresh)
