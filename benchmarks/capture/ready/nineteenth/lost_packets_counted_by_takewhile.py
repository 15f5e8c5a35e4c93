"""Packet loss concealment of streamed audio: faulty, takewhile over a deque of flags counts the lost packets."""
import math
from collections import deque
from itertools import takewhile

import torch

import graphsafe


class Receiver:
    def __init__(self, size, device):
        self.lost = deque([False] * 6, maxlen=6)
        self.played = torch.zeros(size, device=device)

    @property
    def run_of_losses(self):
        return sum(takewhile(bool, reversed(self.lost)))

    def arrive(self, lost):
        self.lost.append(lost)


def build(device, size=32):
    receiver = Receiver(size, device)
    window = torch.hann_window(size, device=device)

    def step(packet):
        run = receiver.run_of_losses
        frame = receiver.played * math.exp(-0.2 * run) if run else torch.tanh(packet * window)
        receiver.played.copy_(frame)
        return frame.clone()

    def refresh(args, kwargs, k):
        lost = k % 30 in (24, 25, 26, 29)
        receiver.arrive(lost)
        args[0].copy_(torch.zeros(size) if lost else torch.randn(size))

    return graphsafe.Step(step, (torch.randn(size, device=device),), refresh=refresh)
