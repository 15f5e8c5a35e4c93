"""Portfolio rounding: the scale is worked out in decimal arithmetic, whose precision the desk changes."""
import decimal

import torch

import graphsafe


def build(device):
    desk = decimal.Context(prec=6)
    weights = torch.linspace(0.1, 1, 16, device=device)

    def tick():
        return float(desk.divide(decimal.Decimal(1), decimal.Decimal(3)))

    def step(prices):
        unit = tick()
        return (prices * weights / unit).round() * unit

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(8, 16) * 10)
        desk.prec = 2 if k % 90 == 75 else 6

    return graphsafe.Step(step, (torch.rand(8, 16, device=device),), refresh=refresh)
