# Image sampler: one captured denoise step, driven by a noise schedule.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_features(t, dim):
    freqs = torch.exp(torch.arange(dim // 2, device=t.device) * (-math.log(1e4) / (dim // 2)))
    args = t[:, None] * freqs[None]
    return torch.cat([args.sin(), args.cos()], dim=-1)


class MiniUNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.time = nn.Linear(16, ch)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.time(timestep_features(t, 16))[:, :, None, None]
        return self.out(F.silu(self.mid(F.silu(h))))


class GraphSampler:
    def __init__(self, net, shape, device, steps=12, guidance=3.0):
        self.net = net
        self.guidance = guidance
        self.sigmas = [14.6 * (1 - i / steps) ** 2 + 0.02 for i in range(steps + 1)]
        self.i = 0
        self.x = torch.zeros(shape, device=device)
        self.t = torch.zeros(shape[0], device=device)
        self.noise = torch.zeros(shape, device=device)
        self.cpu_rng = torch.Generator().manual_seed(11)
        self.warm = torch.cuda.Stream(device)

    def _denoise(self):
        eps = self.net(self.x, self.t)
        base = self.net(self.x, torch.zeros_like(self.t))
        eps = base + self.guidance * (eps - base)
        down = self.sigmas[self.i + 1] - self.sigmas[self.i]
        self.x.add_(eps, alpha=down)
        self.x.add_(self.noise, alpha=0.01)
        return eps

    def build(self):
        self.warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.warm):
            for _ in range(2):
                self._denoise()
        torch.cuda.current_stream().wait_stream(self.warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.warm):
            self.eps = self._denoise()

    def sample(self, latents, guidance):
        self.guidance = guidance
        self.x.copy_(latents)
        preview, last = [], None
        curvature = torch.zeros((), device=self.x.device)
        for self.i in range(len(self.sigmas) - 1):
            self.t.fill_(float(self.sigmas[self.i]))
            fresh = torch.randn(self.x.shape, generator=self.cpu_rng)
            self.noise.copy_(fresh)
            self.graph.replay()
            if last is not None:
                curvature += (self.eps - last).pow(2).mean()
            last = self.eps
            preview.append(self.x.clone())
        return self.x.clone(), preview, curvature


def main(device="cuda"):
    torch.manual_seed(0)
    net = MiniUNet().to(device).eval()
    with torch.no_grad():
        sampler = GraphSampler(net, (2, 3, 16, 16), torch.device(device))
        sampler.build()
        for guidance in (3.0, 7.5):
            image, frames, curvature = sampler.sample(torch.randn(2, 3, 16, 16, device=device), guidance)
            print(guidance, len(frames), image.std().item(), curvature.item())


if __name__ == "__main__":
    main()
