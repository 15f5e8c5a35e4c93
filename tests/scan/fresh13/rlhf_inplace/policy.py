"""The acting side: a policy, a normaliser of observations, and one graph around both."""

import torch
import torch.nn as nn

OBS, ACT = 12, 4


class Normaliser:
    def __init__(self, device):
        self.mean = torch.zeros(OBS, device=device)
        self.var = torch.ones(OBS, device=device)

    def __call__(self, obs):
        return ((obs - self.mean) * (self.var + 1e-5).rsqrt()).clamp(-5, 5)

    def update(self, obs, rate=0.05):
        self.mean.lerp_(obs.mean(0), rate)
        self.var.lerp_(obs.var(0), rate)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.mean = nn.Linear(48, ACT)
        self.value = nn.Linear(48, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return self.mean(hidden), self.value(hidden).squeeze(-1)


class Actor:
    def __init__(self, policy, workers):
        self.policy = policy
        self.normaliser = Normaliser("cuda")
        self.obs = torch.zeros(workers, OBS, device="cuda")

    @torch.no_grad()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.policy(self.normaliser(self.obs))
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.action, self.value = self.policy(self.normaliser(self.obs))

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        self.normaliser.update(obs)
        return self.action.clone(), self.value.clone()
