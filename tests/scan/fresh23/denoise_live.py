"""Streaming speech enhancement: one hop of microphone samples in, one hop of clean speech out."""
from __future__ import annotations

import numpy as np
import torch
from torch import nn

HOP, WIN = 64, 128


class MaskNet(nn.Module):
    def __init__(self, bins: int, width: int = 48):
        super().__init__()
        self.inp = nn.Linear(bins, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, bins)

    def forward(self, mag, h):
        h = self.cell(torch.relu(self.inp(mag)), h)
        return torch.sigmoid(self.out(h)), h


class LiveEnhancer:
    def __init__(self, net: MaskNet, channels: int, device: torch.device):
        self.net = net.eval()
        self.device = device
        bins = WIN // 2 + 1
        basis = torch.fft.rfft(torch.eye(WIN))
        window = torch.hann_window(WIN).sqrt()
        self.fwd_re = (basis.real * window[:, None]).to(device)
        self.fwd_im = (basis.imag * window[:, None]).to(device)
        self.inv = torch.linalg.pinv(torch.cat([basis.real, basis.imag], 1)).to(device)
        self.window = window.to(device)
        self.chunk = torch.zeros(channels, HOP, device=device)
        self.before = torch.zeros(channels, HOP, device=device)
        self.tail = torch.zeros(channels, WIN - HOP, device=device)
        self.hidden = torch.zeros(channels, net.cell.hidden_size, device=device)
        self.staging = torch.zeros(channels, HOP).pin_memory()
        self.bins = bins
        self.graph: torch.cuda.CUDAGraph | None = None
        self.clean: torch.Tensor | None = None

    @torch.no_grad()
    def hop(self) -> torch.Tensor:
        frame = torch.cat([self.before, self.chunk], dim=1)
        re, im = frame @ self.fwd_re, frame @ self.fwd_im
        mask, h = self.net(torch.sqrt(re * re + im * im + 1e-9), self.hidden)
        self.hidden.copy_(h)
        self.before.copy_(self.chunk)
        wave = torch.cat([re * mask, im * mask], dim=1) @ self.inv * self.window
        ready = wave[:, :HOP] + self.tail
        self.tail = wave[:, HOP:]
        return ready

    def prepare(self) -> None:
        lane = torch.cuda.Stream(self.device)
        lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(lane):
            for _ in range(3):
                self.hop()
        torch.cuda.current_stream(self.device).wait_stream(lane)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=lane):
            self.clean = self.hop()
        self.start_call()

    def start_call(self) -> None:
        self.hidden = torch.zeros_like(self.hidden)
        self.before.zero_()

    def push(self, samples: np.ndarray) -> torch.Tensor:
        self.staging.copy_(torch.from_numpy(samples))
        self.chunk.copy_(self.staging, non_blocking=True)
        self.graph.replay()
        return self.clean


class Call:
    """Collects the cleaned audio of one call on the device."""

    def __init__(self, channels: int, hops: int, device: torch.device):
        self.wave = torch.zeros(channels, hops * HOP, device=device)
        self.cursor = 0
        self.peak = torch.zeros((), device=device)

    def append(self, y: torch.Tensor) -> None:
        self.wave[:, self.cursor : self.cursor + HOP].copy_(y)
        self.cursor += HOP
        torch.maximum(self.peak, y.abs().amax(), out=self.peak)


def microphone(channels: int, hops: int, seed: int):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6.28, size=(channels, 1))
    for k in range(hops):
        t = np.arange(k * HOP, (k + 1) * HOP)[None]
        yield (np.sin(0.05 * t + phase) + 0.2 * rng.standard_normal((channels, HOP))).astype(np.float32)


def main(device: str = "cuda") -> None:
    dev = torch.device(device)
    torch.manual_seed(5)
    enhancer = LiveEnhancer(MaskNet(WIN // 2 + 1).to(dev), channels=2, device=dev)
    enhancer.prepare()
    for seed in range(3):
        enhancer.start_call()
        call = Call(2, 12, dev)
        for samples in microphone(2, 12, seed):
            call.append(enhancer.push(samples))
        print(seed, "peak", call.peak.item(), "rms", call.wave.pow(2).mean().sqrt().item())


if __name__ == "__main__":
    main()
