"""Deterministic diffusion sampling where one denoising update is a CUDA graph."""
import argparse
import math

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels: int, classes: int, levels: int):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.Sequential(
            nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(8, channels), nn.SiLU(),
        )
        self.tail = nn.Conv2d(channels, 3, 3, padding=1)
        self.label = nn.Embedding(classes, channels)
        self.level = nn.Embedding(levels, channels)

    def forward(self, x, t, y):
        shift = (self.label(y) + self.level(t))[:, :, None, None]
        return self.tail(self.body(self.stem(x) + shift))


def cosine_table(levels: int):
    raw = [math.cos((i / levels + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(levels + 1)]
    return [max(r / raw[0], 1e-4) for r in raw]


class ImageSampler:
    def __init__(self, net: Denoiser, levels: int, batch: int, side: int, device: torch.device):
        self.net = net.to(device).eval()
        self.levels = levels
        self.signal = cosine_table(levels)
        self.at = levels - 1
        self.canvas = torch.zeros(batch, 3, side, side, device=device)
        self.t = torch.zeros(batch, dtype=torch.int64, device=device)
        self.y = torch.zeros(batch, dtype=torch.int64, device=device)
        self.frames: list[torch.Tensor] = []
        self.plan = None

    def refine(self):
        now, after = self.signal[self.at + 1], self.signal[self.at]
        eps = self.net(self.canvas, self.t, self.y)
        clean = (self.canvas - math.sqrt(1 - now) * eps) / math.sqrt(now)
        clean = clean.clamp(-1, 1)
        self.canvas.copy_(math.sqrt(after) * clean + math.sqrt(1 - after) * eps)

    def arm(self):
        lane = torch.cuda.Stream()
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            for _ in range(3):
                self.refine()
        torch.cuda.current_stream().wait_stream(lane)
        self.plan = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.plan, stream=lane):
            self.refine()

    @torch.no_grad()
    def paint(self, labels: torch.Tensor, keep_every: int = 5) -> torch.Tensor:
        if self.plan is None:
            self.arm()
        self.frames.clear()
        self.y.copy_(labels)
        self.canvas.normal_()
        for k in reversed(range(self.levels)):
            self.at = k
            self.t.fill_(k)
            self.plan.replay()
            if not torch.isfinite(self.canvas).all():
                raise FloatingPointError(f"sampling diverged at level {k}")
            if k % keep_every == 0:
                self.frames.append(self.canvas.clone())
        return self.canvas.clone()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--levels", type=int, default=50)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--out", default="frames.pt")
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    sampler = ImageSampler(Denoiser(32, 10, options.levels), options.levels, options.batch, 32, device)
    labels = torch.randint(0, 10, (options.batch,), device=device)
    picture = sampler.paint(labels)
    torch.save({"picture": picture.cpu(), "frames": torch.stack(sampler.frames).cpu()}, options.out)


if __name__ == "__main__":
    main()
