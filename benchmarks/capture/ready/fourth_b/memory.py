"""Solvers, adapters and meters whose buffers outlive a step."""
import torch
import torch.nn.functional as F
from torch import nn

import graphsafe


class WaveTank:
    """Leapfrog scheme for a damped wave driven at one end."""

    def __init__(self, device, substeps):
        self.now = torch.zeros(64, device=device)
        self.spare = torch.zeros(64, device=device)
        self.speed = torch.zeros(64, device=device)
        self.substeps = substeps

    @torch.no_grad()
    def __call__(self, drive):
        for _ in range(self.substeps):
            bend = torch.roll(self.now, 1) - 2 * self.now + torch.roll(self.now, -1)
            self.speed.mul_(0.97).add_(bend, alpha=0.2)
            self.speed[:4] += drive
            torch.add(self.now, self.speed, alpha=0.5, out=self.spare)
            self.now, self.spare = self.spare, self.now
        return self.now * 1.0, self.speed.square().mean()


def build_wave_tank(device):
    return WaveTank(device, 3), (torch.randn(4, device=device),)


def build_wave_tank_paired(device):
    return WaveTank(device, 2), (torch.randn(4, device=device),)


class AdaptedLinear(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.base = nn.Linear(16, 16, device=device)
        self.down = nn.Parameter(torch.zeros(16, 4, device=device))
        self.up = nn.Parameter(torch.zeros(4, 16, device=device))

    @torch.no_grad()
    def forward(self, x):
        return self.base(x) + (x @ self.down) @ self.up


class AdapterShelf:
    """Adapters on the host, one of which is put into the layer at a time."""

    def __init__(self, device, layer):
        self.device, self.layer = device, layer
        self.shelf = [(torch.randn(16, 4), torch.randn(4, 16)) for _ in range(5)]

    def load(self, which):
        down, up = self.shelf[which]
        self.layer.down.data = down.to(self.device, copy=True)
        self.layer.up.data = up.to(self.device, copy=True)

    def refresh(self, args, kwargs, k):
        args[0].copy_(torch.randn(3, 16, generator=torch.Generator().manual_seed(k)))
        self.load(k // 3 % 5)


def build_adapted_linear(device):
    layer = AdaptedLinear(device)
    shelf = AdapterShelf(device, layer)
    shelf.load(0)
    return graphsafe.Step(layer, (torch.randn(3, 16, device=device),), refresh=shelf.refresh)


class SaliencyMeter:
    """Gradient of a score with respect to an input mask, as a map per call."""

    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1)).to(device).requires_grad_(False)
        self.mask = torch.ones(10, device=device, requires_grad=True)

    def __call__(self, x):
        score = self.net(x * self.mask).sum()
        score.backward()
        return score.detach(), self.mask.grad

    def refresh(self, args, kwargs, k):
        self.mask.grad = None
        args[0].copy_(torch.randn(5, 10, generator=torch.Generator().manual_seed(k)))


def build_saliency_meter(device):
    meter = SaliencyMeter(device)
    return graphsafe.Step(meter, (torch.randn(5, 10, device=device),), refresh=meter.refresh)


class PhonemeCell(nn.Module):
    """Streaming recurrent cell; the caller's dictionary holds the state."""

    def __init__(self, device):
        super().__init__()
        self.cell = nn.LSTMCell(8, 12, device=device)
        self.out = nn.Linear(12, 6, device=device)

    @torch.no_grad()
    def forward(self, frame, state):
        h, c = self.cell(frame, (state["h"], state["c"]))
        state["h"], state["c"] = h, c
        return F.log_softmax(self.out(h), -1)


def build_phoneme_cell(device):
    cell = PhonemeCell(device)
    state = {"h": torch.zeros(2, 12, device=device), "c": torch.zeros(2, 12, device=device)}

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8, generator=torch.Generator().manual_seed(k)))

    return graphsafe.Step(cell, (torch.randn(2, 8, device=device), state), refresh=refresh)


class PinnedIngest(nn.Module):
    """Takes audio blocks from a host buffer that the sound driver fills again and again."""

    def __init__(self, device):
        super().__init__()
        self.register_buffer("block", torch.zeros(4, 64, device=device))
        self.register_buffer("carry", torch.zeros(4, 8, device=device))
        self.fir = nn.Conv1d(1, 3, 9, device=device)

    @torch.no_grad()
    def forward(self, host):
        self.block.copy_(host, non_blocking=True)
        y = self.fir(torch.cat((self.carry, self.block), 1)[:, None])
        self.carry.copy_(self.block[:, -8:])
        return y


def build_pinned_ingest(device):
    host = torch.randn(4, 64)
    return PinnedIngest(device), (host.pin_memory() if device.type == "cuda" else host,)


class PacketScorer(nn.Module):
    """Header and payload arrive in one packet; the payload is a window on it and is whitened where it lies."""

    def __init__(self, device):
        super().__init__()
        self.head = nn.Linear(16, 4, device=device)

    @torch.no_grad()
    def forward(self, packet, payload):
        payload.sub_(payload.mean(-1, keepdim=True)).div_(payload.std(-1, keepdim=True) + 1e-3)
        gate = packet[:, :4].sigmoid()
        return self.head(packet[:, 4:]) * gate, payload, packet[:, ::2]


def build_packet_scorer(device):
    packet = torch.randn(6, 20, device=device)
    return PacketScorer(device), (packet, packet[:, 4:])
