"""Random numbers, seeds and clocks."""

import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class TriedGraph(nn.Module):
    """Tries in its constructor whether it can be captured, and goes on without where it cannot."""

    def __init__(self, width, device):
        super().__init__()
        self.layer = nn.Linear(width, width).to(device)
        self.sample = torch.zeros(2, width, device=device)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # guilty: tried_graph GS501|GS605
                self.absolute_maximum = self.layer(self.sample).abs().max().item()  # guilty: tried_graph GS501|GS605
            self.graph = graph
        except RuntimeError:  # guilty: tried_graph GS501|GS605
            self.graph = None

    @torch.no_grad()
    def forward(self, x):
        return F.relu(self.layer(x))


def build_tried_graph(device):
    return TriedGraph(8, device), (torch.randn(2, 8).to(device),)


def supports_graphs(step, device):
    """Whether a step can be captured, found out by doing so."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin()  # guilty: probed_backend GS501|GS605
            step()
            graph.capture_end()  # guilty: probed_backend GS501|GS605
    except Exception:  # guilty: probed_backend GS501|GS605
        return False
    return True


class ProbedBackend(nn.Module):
    """Asks the helper above for each of its backends before it chooses one."""

    def __init__(self, device):
        super().__init__()
        lengths = torch.full((2,), 3, device=device)
        self.fast = supports_graphs(lambda: lengths.sum().tolist(), device)  # guilty: probed_backend GS501|GS605
        self.register_buffer("weight", torch.full((8, 8), 0.1, device=device))

    def forward(self, x):
        return x @ self.weight


def build_probed_backend(device):
    return ProbedBackend(device), (torch.randn(2, 8).to(device),)


class PrivateNoise(nn.Module):
    """A sampler with a generator of its own, so that requests can be repeated."""

    def __init__(self, device):
        super().__init__()
        self.generator = torch.Generator(device=device)
        self.generator.manual_seed(7)

    def forward(self, logits):
        noise = torch.empty_like(logits).exponential_(generator=self.generator)  # guilty: private_noise GS502
        return (logits.softmax(-1) / noise).argmax(-1), noise


def build_private_noise(device):
    return PrivateNoise(device), (torch.randn(4, 32, device=device),)


class RepeatableNoise(nn.Module):
    """Seeds before it draws, so that every step adds the same noise."""

    def forward(self, latent):
        torch.manual_seed(1234)  # guilty: repeatable_noise GS503
        return latent + 0.1 * torch.randn_like(latent)


def build_repeatable_noise(device):
    return RepeatableNoise(), (torch.randn(2, 4, 8, 8, device=device),)


class LayerDrop(nn.Module):
    """Leaves a layer out at random."""

    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    @torch.no_grad()
    def forward(self, x):
        for layer in self.layers:
            if random.random() < 0.5:  # guilty: layer_drop GS504
                continue
            x = x + torch.tanh(layer(x))
        return x


def build_layer_drop(device):
    return LayerDrop(8, 6).to(device), (torch.randn(4, 8, device=device),)


class NoiseLevel(nn.Module):
    """A training step of a diffusion model that draws its noise level with numpy."""

    def __init__(self, width):
        super().__init__()
        self.denoiser = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, clean, noise):
        sigma = float(np.exp(1.2 * np.random.randn() - 1.2))  # guilty: noise_level GS504
        return F.mse_loss(self.denoiser(clean + sigma * noise), clean)


def build_noise_level(device):
    return NoiseLevel(8).to(device), (torch.randn(4, 8, device=device), torch.randn(4, 8, device=device))


class ClockPhase(nn.Module):
    """An oscillator driven by the time of day."""

    def forward(self, x):
        phase = time.perf_counter() % 1.0  # guilty: clock_phase GS702|GS504
        return torch.sin(x + 6.28 * phase)


def build_clock_phase(device):
    return ClockPhase(), (torch.randn(16, device=device),)


class HostMask(nn.Module):
    """Token dropping with a mask that was drawn on the host."""

    def forward(self, tokens):
        mask = (torch.rand(tokens.shape[0]) > 0.3).float()
        return tokens * mask.to(tokens.device).unsqueeze(1)  # guilty: host_mask GS304|GS504


def build_host_mask(device):
    return HostMask(), (torch.randn(16, 8, device=device),)


class SavedOffset(nn.Module):
    """Notes where the generator stands, so that a later pass can draw the same dropout again."""

    def __init__(self, width, device):
        super().__init__()
        self.layer = nn.Linear(width, width).to(device)
        self.generator = torch.cuda.default_generators[device.index or 0]
        self.offset = 0

    @torch.no_grad()
    def forward(self, x):
        self.offset = self.generator.get_offset()  # guilty: saved_offset GS503|GS607
        return F.dropout(self.layer(x), 0.5)


def build_saved_offset(device):
    return SavedOffset(16, device), (torch.randn(4, 16, device=device),)
