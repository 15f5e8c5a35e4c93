"""Flow solver on a ring main: pumps are throttled by a network, and the flow takes the direction of the drift."""
import math

import torch
from torch import nn

import graphsafe


class RingMain(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.throttle = nn.Sequential(nn.Linear(nodes, 32), nn.Softplus(), nn.Linear(32, nodes))
        self.register_buffer("drift", torch.zeros(()))  # a zero with a sign: balanced, last drained clockwise (+) or anticlockwise (-)

    def forward(self, demand):
        flow = torch.sigmoid(self.throttle(demand)) * demand.abs()
        flow = torch.copysign(flow, self.drift)
        return flow - demand.mean(dim=-1, keepdim=True)


class Supervisor:
    def __init__(self, main):
        self.main = main

    def balance(self, k):
        last = -1.0 if k % 9 == 8 else 1.0
        self.main.drift.fill_(math.copysign(0.0, last))


def build(device, batch=4, nodes=16):
    main = RingMain(nodes).to(device).eval().requires_grad_(False)
    supervisor = Supervisor(main)
    demand = torch.randn(batch, nodes).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, nodes))
        supervisor.balance(k)

    return graphsafe.Step(main, (demand,), refresh=refresh)
