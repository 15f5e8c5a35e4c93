"""Prices are rounded on the device; decimal arithmetic, of changing precision, makes the log line only."""
import decimal

import torch

import graphsafe


def build(device):
    desk = decimal.Context(prec=6)
    weights, lines = torch.linspace(0.1, 1, 16, device=device), []

    def step(prices):
        lines[:] = [str(desk.divide(decimal.Decimal(len(lines) + 1), decimal.Decimal(7)))]
        return (prices * weights * 3).round() / 3

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(8, 16) * 10)
        desk.prec = 2 if k % 5 == 4 else 6

    return graphsafe.Step(step, (torch.rand(8, 16, device=device),), refresh=refresh)
