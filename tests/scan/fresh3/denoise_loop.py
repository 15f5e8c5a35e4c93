"""Sample images: one captured U-Net call, replayed for each timestep."""
import math

import torch
from torch import nn


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angle = t[:, None] * freqs
    return torch.cat([angle.cos(), angle.sin()], -1)


class UNet(nn.Module):
    def __init__(self, channels=3, width=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, emb):
        h = self.inp(x) + self.time(emb)[:, :, None, None]
        return self.out(h + self.up(torch.relu(self.down(h))))


class Schedule:
    def __init__(self, steps, device):
        betas = torch.linspace(1e-4, 0.02, steps)
        self.alphas = (1 - betas).cumprod(0).tolist()
        self.device = device

    def update(self, x, noise, index):
        alpha = self.alphas[index]
        before = self.alphas[index - 1] if index else 1.0
        clean = (x - math.sqrt(1 - alpha) * noise) / math.sqrt(alpha)
        return math.sqrt(before) * clean + math.sqrt(1 - before) * noise


class Sampler:
    def __init__(self, model, schedule, shape, device):
        self.model = model
        self.schedule = schedule
        self.x = torch.zeros(shape, device=device)
        self.t = torch.zeros(shape[0], device=device)
        self.graph = torch.cuda.CUDAGraph()
        self._record(torch.cuda.Stream(device), device)

    @torch.no_grad()
    def _record(self, stream, device):
        emb = timestep_embedding(self.t, 16)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(self.x, emb)
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.noise = self.model(self.x, emb)

    @torch.no_grad()
    def sample(self, start, steps):
        self.x.copy_(start)
        for index in reversed(range(steps)):
            self.t.fill_(index)
            self.graph.replay()
            self.x = self.schedule.update(self.x, self.noise, index)
        return self.x


def main(steps=6):
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = UNet().to(device).eval()
    sampler = Sampler(model, Schedule(steps, device), (2, 3, 8, 8), device)
    image = sampler.sample(torch.randn(2, 3, 8, 8, device=device), steps)
    print(image.mean().item())


if __name__ == "__main__":
    main()
