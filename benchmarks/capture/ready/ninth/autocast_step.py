"""A server that enters autocast for each answer; new weights are copied into place and one request warms up."""
import torch
from torch import nn

import graphsafe


class Server:
    def __init__(self, device, width):
        self.model = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width)).to(device)
        self.kind = device.type

    @torch.no_grad()
    def reload(self, x):
        for p in self.model.parameters():
            p.copy_(torch.randn(p.shape) * 0.3)
        self.answer(x)

    @torch.no_grad()
    def answer(self, x):
        with torch.autocast(self.kind, dtype=torch.bfloat16):
            return (self.model(x) + self.model(0.5 * x)).float()


def build(device, batch=4, width=16):
    server = Server(device, width)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 9 == 8:
            server.reload(args[0])

    return graphsafe.Step(server.answer, (x,), refresh=refresh)
