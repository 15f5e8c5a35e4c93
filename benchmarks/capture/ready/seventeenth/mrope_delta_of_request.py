"""Decoding with multimodal rotary positions, offset by images: faulty, the offset is an int of the request."""
from dataclasses import dataclass

import torch

import graphsafe


@dataclass(slots=True)
class Request:
    identity: int
    mrope_delta: int = 0


class Batch:
    def __init__(self, device, rows=3):
        self.requests = [Request(identity) for identity in range(rows)]
        self.deltas = torch.zeros(rows, device=device)

    def admit(self, row, request):
        self.requests[row] = request
        self.deltas[row] = request.mrope_delta

    def rope_positions(self, positions):
        moved = [position + request.mrope_delta for position, request in zip(positions, self.requests, strict=True)]
        return torch.stack(moved)


def build(device, half=4):
    batch = Batch(device)
    frequencies = 1.0 / 100 ** (torch.arange(half, device=device) / half)

    def step(hidden, positions):
        angles = batch.rope_positions(positions).unsqueeze(1) * frequencies
        first, second = hidden.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 2 * half))
        args[1].add_(1)
        if k % 23 == 0:
            row = k // 23 % 3
            batch.admit(row, Request(k, mrope_delta=-2 - row))
            args[1][row] = 7

    args = (torch.randn(3, 2 * half, device=device), torch.full((3,), 5.0, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
