"""A spiking cell unrolled by hand over a long window (thousands of launches); late in the protocol synapses fatigue."""
import torch
import torch.nn as nn

import graphsafe

WINDOW = 240


class LeakyCell(nn.Module):
    """An integrate-and-fire layer with a surrogate threshold, as in spiking networks."""

    def __init__(self, n=12, m=24):
        super().__init__()
        self.inputs, self.recurrent = nn.Linear(n, m), nn.Linear(m, m, bias=False)
        self.threshold = nn.Parameter(torch.full((m,), 0.8))

    def forward(self, x, spikes, voltage, trace):
        current = self.inputs(x) + 0.3 * self.recurrent(spikes)
        voltage = 0.9 * voltage * (1 - spikes) + 0.1 * current
        spikes = torch.sigmoid(8 * (voltage - self.threshold))
        return spikes, voltage, 0.95 * trace + spikes


class Network:
    def __init__(self, device):
        self.cell, self.out = LeakyCell().to(device).requires_grad_(False), nn.Linear(24, 3).to(device).requires_grad_(False)
        self.stimulus = torch.zeros(WINDOW, 4, 12, device=device)
        self.state = torch.zeros(3, 4, 24, device=device)
        self.refined = 0

    def present(self, args, kwargs, k):
        self.stimulus.copy_((torch.rand(self.stimulus.shape) < 0.2).float() * 3)
        self.refined += k % 2
        self.rate = 0.02 if self.refined >= 92 else 0.0  # synapses fatigue in the last phase of the protocol

    rate = 0.0

    def step(self):
        spikes, voltage, trace = self.state.unbind(0)
        for x in self.stimulus:
            spikes, voltage, trace = self.cell(x, spikes, voltage, trace)
            if self.rate:
                voltage = voltage - self.rate * trace
        self.state.copy_(torch.stack([spikes, voltage, trace]))
        return self.out(trace), voltage


def build(device):
    network = Network(device)
    return graphsafe.Step(network.step, (), {}, refresh=network.present, reset=network.state.zero_)
