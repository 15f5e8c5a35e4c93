"""Denoising sampler with preview callbacks; the denoiser call and the update are one graph."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

import torch
import torch.nn as nn


@dataclass
class Request:
    prompt: torch.Tensor
    guidance: float = 4.0
    steps: int = 20
    on_step: Optional[Callable[[int, torch.Tensor], None]] = None


class Denoiser(nn.Module):
    def __init__(self, ch=32, d_prompt=48):
        super().__init__()
        self.inp = nn.Conv2d(4, ch, 3, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 4, 3, padding=1)
        self.film = nn.Linear(d_prompt + 1, ch)

    def forward(self, x, sigma, prompt):
        c = self.film(torch.cat([prompt, sigma.expand(prompt.shape[0], 1)], -1))
        h = torch.relu(self.inp(x)) + c[:, :, None, None]
        return self.out(torch.relu(self.mid(h)))


class Slots:
    def __init__(self, n, side, d_prompt, device):
        self.x = torch.zeros(n, 4, side, side, device=device)
        self.prompt = torch.zeros(n, d_prompt, device=device)
        self.sigma = torch.ones(1, device=device)
        self.sigma_next = torch.ones(1, device=device)
        self.guidance = torch.ones(1, device=device)


class LatentSampler:
    def __init__(self, net, device, n=2, side=32, d_prompt=48):
        self.net, self.device = net, device
        self.slots = Slots(n, side, d_prompt, device)
        self.null = torch.zeros(n, d_prompt, device=device)
        self.churn = 0.1
        self.preview = None

    def _update(self):
        s = self.slots
        cond = self.net(s.x, s.sigma, s.prompt)
        base = self.net(s.x, s.sigma, self.null)
        eps = torch.lerp(base, cond, s.guidance.view(1, 1, 1, 1))
        drift = (s.sigma_next - s.sigma) * eps
        s.x.add_(drift + self.churn * torch.randn_like(s.x) * s.sigma_next)
        return s.x - s.sigma_next * eps

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                self._update()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.preview = self._update()

    def sample(self, req: Request, seed=0):
        torch.manual_seed(seed)
        s = self.slots
        sigmas = torch.linspace(8.0, 0.0, req.steps + 1, device=self.device)
        s.prompt.copy_(req.prompt)
        s.guidance.fill_(req.guidance)
        s.x.normal_().mul_(8.0)
        s.sigma_next.copy_(sigmas[1:2])
        for k in range(req.steps):
            self.churn = 0.1 if k < req.steps // 2 else 0.0
            s.sigma.copy_(sigmas[k:k + 1])
            self.graph.replay()
            if req.on_step is not None:
                req.on_step(k, self.preview)
        return s.x.clone()


class Filmstrip:
    """Keeps the previews of a run for the gallery."""

    def __init__(self, every=5):
        self.every, self.frames = every, []

    def __call__(self, k, frame):
        if k % self.every == 0:
            self.frames.append(frame[0])

    def sheet(self):
        return torch.cat([f.clamp(-1, 1) for f in self.frames], -1)


def main():
    dev = torch.device("cuda", torch.cuda.current_device())
    sampler = LatentSampler(Denoiser().to(dev).eval(), dev)
    sampler.capture()
    strip = Filmstrip()
    out = sampler.sample(Request(torch.randn(2, 48), guidance=6.0, on_step=strip), seed=5)
    print(tuple(out.shape), tuple(strip.sheet().cpu().shape))


if __name__ == "__main__":
    main()
