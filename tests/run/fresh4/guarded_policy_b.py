"""Controller loop: an observation filter graph and a policy graph, with a range check on inputs."""
import logging

import torch
from torch import nn

log = logging.getLogger("controller")
OBS, ACT, BATCH = 24, 8, 16


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(OBS))
        self.register_buffer("scale", torch.full((OBS,), 0.5))

    def forward(self, obs):
        return (obs - self.mean) * self.scale


class Policy(nn.Module):
    def __init__(self, limit=4.0):
        super().__init__()
        self.limit = limit
        self.net = nn.Sequential(nn.Linear(OBS, 128), nn.ELU(), nn.Linear(128, ACT))

    def forward(self, obs):
        peak = obs.abs().amax(-1, keepdim=True)
        obs = torch.where(peak > self.limit, obs.clamp(-self.limit, self.limit), obs)
        return torch.tanh(self.net(obs))


class MaybeGraphed:
    def __init__(self, fn, x):
        self.fn, self.x = fn, x
        self.graph = self.y = None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                fn(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.y = fn(x)
            self.graph = graph
        except RuntimeError as err:
            raise SystemExit(f"capture of {type(fn).__name__} failed: {err}")

    def __call__(self):
        if self.graph is None:
            return self.fn(self.x)
        self.graph.replay()
        return self.y


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(21)
    episodes = torch.randn(60, BATCH, OBS).mul_(3).to(device)
    obs = torch.zeros(BATCH, OBS, device=device)
    normalize = MaybeGraphed(Filter().to(device), obs)
    policy = MaybeGraphed(Policy().to(device), normalize.y)
    effort = torch.zeros((), device=device)
    for frame in episodes:
        obs.copy_(frame)
        normalize()
        effort += policy().square().mean()
    print(f"mean effort {effort.item() / len(episodes):.5f}")


if __name__ == "__main__":
    main()
