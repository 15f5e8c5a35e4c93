"""Ancestral diffusion sampling, one denoising step at a time."""
import dataclasses

import torch
from torch import nn

SIDE, CHANNELS, STEPS, IMAGES = 12, 3, 30, 3


@dataclasses.dataclass
class Config:
    seed: int = 1234
    eta: float = 0.4


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(CHANNELS * SIDE * SIDE, 128)
        self.b = nn.Linear(128, CHANNELS * SIDE * SIDE)

    def forward(self, x, sigma):
        return self.b(torch.tanh(self.a(x) * (1.0 / (1.0 + sigma))))


class Sampler:
    def __init__(self, config, device):
        self.config = config
        self.net = Denoiser().to(device).eval()
        self.x = torch.zeros(1, CHANNELS * SIDE * SIDE, device=device)
        self.sigma = torch.ones((), device=device)
        self.noise = torch.zeros_like(self.x)
        self.graph = torch.cuda.CUDAGraph()
        self.sigmas = torch.linspace(2.0, 0.05, STEPS).to(device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.denoise()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.denoise()

    def denoise(self):
        self.noise.copy_(torch.randn_like(self.x))
        clean = self.net(self.x, self.sigma)
        self.x.add_((clean - self.x) * 0.15).add_(self.noise * self.sigma * self.config.eta)

    def begin(self, i):
        torch.cuda.manual_seed(self.config.seed)
        self.sigma.copy_(self.sigmas[i])

    def sample(self, start):
        self.x.copy_(start)
        for i in range(STEPS):
            self.begin(i)
            self.graph.replay()
            yield self.x, self.noise


@torch.no_grad()
def main():
    torch.manual_seed(6)
    device = torch.device("cuda")
    sampler = Sampler(Config(), device)
    starts = torch.randn(IMAGES, 1, CHANNELS * SIDE * SIDE).to(device)
    walk = torch.zeros_like(sampler.x)
    for n in range(IMAGES):
        for _, noise in sampler.sample(starts[n]):
            walk.add_(noise)
    drift = walk.square().mean().sqrt() / (IMAGES * STEPS) ** 0.5   # about 1 for independent noise
    print(f"images {IMAGES} drift {drift.item():.3f}")


if __name__ == "__main__":
    main()
