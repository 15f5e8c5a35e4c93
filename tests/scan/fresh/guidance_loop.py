"""Image generation: a captured denoiser inside a host-driven schedule."""
import torch
from torch import nn


class Unet(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(dim, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, dim, 3, padding=1))

    def forward(self, x, sigma):
        return self.body(x / (sigma * sigma + 1).sqrt())


class Captured:
    def __init__(self, net, shape, device):
        self.x = torch.zeros(shape, device=device)
        self.sigma = torch.ones((), device=device)
        s = torch.cuda.Stream(device)
        s.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(s):
            net(self.x, self.sigma)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=s):
            self.out = net(self.x, self.sigma)

    def __call__(self, x, sigma):
        self.x.copy_(x)
        self.sigma.copy_(sigma)
        self.graph.replay()
        return self.out


class Generator:
    def __init__(self, device):
        self.denoise = Captured(Unet().to(device), (1, 4, 8, 8), device)
        self.sigmas = torch.linspace(10, 0.1, 12)
        self.noise = torch.Generator().manual_seed(0)
        self.device = device

    def one(self, x, i):
        sigma = self.sigmas[i]
        den = self.denoise(x, sigma.to(self.device))
        slope = (x - den) / sigma
        x = x + slope * (self.sigmas[i + 1] - sigma)
        churn = torch.randn(x.shape, generator=self.noise).to(x.device)
        return x + 0.01 * churn

    def generate(self, x):
        for i in range(len(self.sigmas) - 1):
            x = self.one(x, i)
            if torch.isnan(x).any():
                break
        return x


if __name__ == "__main__":
    d = torch.device("cuda:0")
    print(Generator(d).generate(torch.randn(1, 4, 8, 8, device=d)).std())
