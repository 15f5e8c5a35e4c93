"""Sample images: the U-Net, its time embedding and the solver's update live in one graph."""
import math

import torch
from torch import nn


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        self.register_buffer("freqs", torch.exp(-math.log(10000) * torch.arange(half) / half))

    def forward(self, t):
        angle = t[:, None] * self.freqs
        return torch.cat([angle.cos(), angle.sin()], -1)


class UNet(nn.Module):
    def __init__(self, channels=3, width=16):
        super().__init__()
        self.embed = TimeEmbedding(width)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.time(self.embed(t))[:, :, None, None]
        return self.out(h + self.up(torch.relu(self.down(h))))


class Schedule:
    def __init__(self, steps):
        alphas = (1 - torch.linspace(1e-4, 0.02, steps)).cumprod(0).tolist()
        self.pairs = [(alphas[i], alphas[i - 1] if i else 1.0) for i in range(steps)]

    def __iter__(self):
        for index in reversed(range(len(self.pairs))):
            yield index, *self.pairs[index]


class Sampler:
    def __init__(self, model, schedule, shape, device):
        self.model = model
        self.schedule = schedule
        self.x = torch.zeros(shape, device=device)
        self.t = torch.zeros(shape[0], device=device)
        self.alpha = torch.full((), 0.5, device=device)
        self.before = torch.full((), 0.6, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self._record(torch.cuda.Stream(device), device)

    def _step(self):
        noise = self.model(self.x, self.t)
        clean = (self.x - (1 - self.alpha).sqrt() * noise) / self.alpha.sqrt()
        self.x.copy_(self.before.sqrt() * clean + (1 - self.before).sqrt() * noise)

    @torch.no_grad()
    def _record(self, stream, device):
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    @torch.no_grad()
    def sample(self, start):
        self.x.copy_(start)
        for index, alpha, before in self.schedule:
            self.t.fill_(index)
            self.alpha.fill_(alpha)
            self.before.fill_(before)
            self.graph.replay()
        return self.x


def main(steps=6):
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = UNet().to(device).eval()
    sampler = Sampler(model, Schedule(steps), (2, 3, 8, 8), device)
    image = sampler.sample(torch.randn(2, 3, 8, 8, device=device))
    print(image.mean().item())


if __name__ == "__main__":
    main()
