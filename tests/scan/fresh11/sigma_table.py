"""Ancestral sampling where the noise level is looked up on the device."""
import torch
import torch.nn as nn


def sigma_ladder(steps: int, device: torch.device) -> torch.Tensor:
    ladder = torch.linspace(1.0, 0.0, steps + 1, device=device) ** 2 * 6.0
    return ladder


class Denoiser(nn.Module):
    def __init__(self, dim: int = 32):
        super().__init__()
        self.time = nn.Linear(1, dim)
        self.body = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, sigma):
        emb = self.time(sigma.log1p().reshape(1, 1))
        return x - sigma * self.body(x / (1 + sigma.square()).sqrt() + emb)


class Sampler:
    def __init__(self, net: Denoiser, shape, steps: int, device: torch.device):
        self.net, self.steps, self.device = net, steps, device
        self.sigmas = sigma_ladder(steps, device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)
        self.x = torch.zeros(shape, device=device)
        self.guess = torch.zeros(shape, device=device)
        self.graph = self._record()

    @torch.no_grad()
    def _step(self):
        now = self.sigmas.index_select(0, self.cursor)
        then = self.sigmas.index_select(0, self.cursor + 1)
        self.guess.copy_(self.net(self.x, now))
        self.x.add_((self.x - self.guess) / now * (then - now))
        self.cursor.add_(1)

    def _record(self):
        stream = torch.cuda.Stream(self.device)
        here = torch.cuda.current_stream(self.device)
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            self._step()
        here.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._step()
        return graph

    def sample(self, noise: torch.Tensor, preview_every: int = 3):
        self.cursor.zero_()
        self.x.copy_(noise * self.sigmas[0])
        previews = []
        for i in range(self.steps):
            self.graph.replay()
            if i % preview_every == 0:
                previews.append(self.guess.clone())
        return self.x.clone(), previews


def main(device="cuda"):
    torch.manual_seed(45)
    device = torch.device(device)
    sampler = Sampler(Denoiser().to(device), (4, 32), steps=8, device=device)
    first, shots = sampler.sample(torch.randn(4, 32, device=device))
    second, more = sampler.sample(torch.randn(4, 32, device=device))
    return [first, second, *shots, *more]


if __name__ == "__main__":
    print([t.std().item() for t in main()])
