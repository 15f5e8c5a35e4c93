"""Delay-and-sum beamforming towards a speaker: faulty, integer delays of a named tuple cut the channels."""
from typing import NamedTuple

import torch

import graphsafe

LENGTH, MARGIN = 48, 12


class Steering(NamedTuple):
    delays: tuple
    gains: torch.Tensor


def delays_of(seat, microphones=4):
    return tuple((m * seat) % MARGIN for m in range(microphones))


def build(device, microphones=4):
    steering = Steering(delays_of(0), torch.ones(microphones, 1, device=device))

    def step(channels):
        cut = [channel[delay : delay + LENGTH] for channel, delay in zip(channels, steering.delays, strict=True)]
        aligned = torch.stack(cut)
        return (aligned * steering.gains).mean(0)

    def refresh(args, kwargs, k):
        nonlocal steering
        args[0].copy_(torch.randn(microphones, LENGTH + MARGIN))
        steering.gains.copy_(torch.rand(microphones, 1) + 0.5)
        if k % 32 == 31:
            steering = steering._replace(delays=delays_of(k // 32 + 1))

    return graphsafe.Step(step, (torch.randn(microphones, LENGTH + MARGIN, device=device),), refresh=refresh)
