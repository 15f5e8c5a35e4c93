"""Mel-to-wave synthesis with one graph per frame bucket."""
from __future__ import annotations

import bisect
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Bucket:
    frames: int
    mel: torch.Tensor
    wave: torch.Tensor
    graph: torch.cuda.CUDAGraph


class Vocoder(nn.Module):
    def __init__(self, mels: int = 20, hop: int = 16):
        super().__init__()
        self.hop = hop
        self.pre = nn.Conv1d(mels, 32, 7, padding=3)
        self.post = nn.Conv1d(32, 2 * hop, 7, padding=3)

    def forward(self, mel: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        frames = self.post(F.leaky_relu(self.pre(mel), 0.1)) * window.view(1, -1, 1)
        length = self.hop * (mel.shape[-1] + 1)
        folded = F.fold(frames, (1, length), (1, 2 * self.hop), stride=(1, self.hop))
        return torch.tanh(folded.flatten(1))


class Synthesizer:
    SIZES = (32, 64, 128)

    def __init__(self, net: Vocoder, device: torch.device):
        self.net, self.device = net, device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.buckets: dict[int, Bucket] = {}

    def _make_bucket(self, frames: int) -> Bucket:
        window = torch.hann_window(2 * self.net.hop, device=self.device)
        mel = torch.zeros(1, self.net.pre.in_channels, frames, device=self.device)
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.net(mel, window)
        here.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            wave = self.net(mel, window)
        return Bucket(frames, mel, wave, graph)

    def _bucket_for(self, frames: int) -> Bucket:
        size = self.SIZES[bisect.bisect_left(self.SIZES, frames)]
        if size not in self.buckets:
            self.buckets[size] = self._make_bucket(size)
        return self.buckets[size]

    @torch.no_grad()
    def __call__(self, mel: torch.Tensor) -> torch.Tensor:
        frames = mel.shape[-1]
        bucket = self._bucket_for(frames)
        bucket.mel[..., :frames].copy_(mel)
        bucket.graph.replay()
        return bucket.wave[:, : frames * self.net.hop].clone()


class LoudnessMeter:
    def __init__(self):
        self.readings: list[torch.Tensor] = []

    def update(self, wave: torch.Tensor) -> None:
        self.readings.append(wave.unfold(-1, 32, 32).square().mean(-1))


def main(device="cuda"):
    torch.manual_seed(10)
    device = torch.device(device)
    synth = Synthesizer(Vocoder().to(device).eval(), device)
    meter = LoudnessMeter()
    waves = []
    for frames in (64, 40, 30, 61, 20, 33):
        wave = synth(torch.randn(1, 20, frames, device=device))
        meter.update(wave)
        waves.append(wave)
    return waves


if __name__ == "__main__":
    print([round(w.abs().mean().item(), 4) for w in main()])
