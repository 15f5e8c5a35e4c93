"""Delay-and-sum beamforming towards a speaker: sound, delays of a named tuple on the device gather the channels."""
from typing import NamedTuple

import torch

import graphsafe

LENGTH, MARGIN = 48, 12


class Steering(NamedTuple):
    delays: torch.Tensor
    gains: torch.Tensor


def delays_of(seat, microphones=4):
    return tuple((m * seat) % MARGIN for m in range(microphones))


def build(device, microphones=4):
    steering = Steering(torch.tensor(delays_of(0), device=device), torch.ones(microphones, 1, device=device))
    samples = torch.arange(LENGTH, device=device)

    def step(channels):
        aligned = channels.gather(1, steering.delays.unsqueeze(1) + samples)
        return (aligned * steering.gains).mean(0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(microphones, LENGTH + MARGIN))
        steering.gains.copy_(torch.rand(microphones, 1) + 0.5)
        if k % 32 == 31:
            steering.delays.copy_(torch.tensor(delays_of(k // 32 + 1)))

    return graphsafe.Step(step, (torch.randn(microphones, LENGTH + MARGIN, device=device),), refresh=refresh)
