"""Samples short latent clips with a two-step solver; the denoiser is one captured graph."""
import math

import torch
from torch import nn


def sigmas(steps, high=8.0, low=0.05):
    ratio = (low / high) ** (1 / (steps - 1))
    return [high * ratio ** i for i in range(steps)] + [0.0]


class ClipDenoiser(nn.Module):
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.lift = nn.Conv3d(channels, width, 3, padding=1)
        self.tone = nn.Linear(1, width)
        self.drop = nn.Conv3d(width, channels, 3, padding=1)

    def forward(self, latent, sigma):
        h = self.lift(latent / (1.0 + sigma))
        h = h + self.tone(sigma.log().view(1, 1)).view(1, -1, 1, 1, 1)
        return self.drop(torch.nn.functional.silu(h))


class PreviewHead(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.rgb = nn.Conv3d(channels, 3, 1)

    def forward(self, latent):
        return self.rgb(latent).sigmoid()


class ClipSampler:
    def __init__(self, device, frames=4, side=8):
        self.net = ClipDenoiser().to(device).eval()
        self.head = PreviewHead().to(device).eval()
        self.latent = torch.randn(1, 4, frames, side, side, device=device)
        self.sigma = torch.ones(1, device=device)
        self.side = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()
        self.preview = None

    @torch.no_grad()
    def warm(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.net(self.latent, self.sigma)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph):
            self.clean = self.net(self.latent, self.sigma)

    def _show(self):
        with torch.cuda.stream(self.side):
            self.preview = self.head(self.latent)

    @torch.no_grad()
    def sample(self, steps=6, tolerance=1e-4):
        self.latent.normal_().mul_(8.0)
        schedule = sigmas(steps)
        previous = None
        for now, nxt in zip(schedule, schedule[1:]):
            self.sigma.fill_(now)
            self.graph.replay()
            estimate = self.clean
            if previous is not None:
                estimate = 1.5 * self.clean - 0.5 * previous
            previous = self.clean
            moved = (self.latent - estimate) * (nxt / now)
            change = (moved + estimate - self.latent).abs().mean()
            self.latent = estimate + moved
            self._show()
            if change.item() < tolerance:
                break
        return self.latent, self.preview


def main():
    device = torch.device("cuda")
    torch.manual_seed(14)
    sampler = ClipSampler(device)
    sampler.warm()
    for clip in range(3):
        latent, preview = sampler.sample()
        spread = latent.std().item()
        print(clip, f"{spread:.4f}", f"{math.log1p(preview.mean().item()):.4f}")


if __name__ == "__main__":
    main()
