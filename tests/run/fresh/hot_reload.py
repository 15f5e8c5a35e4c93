"""Policy server whose weights follow a learner: in place where possible, re-captured otherwise."""
from typing import Optional

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs=24, act=6, width=128):
        super().__init__()
        self.obs = obs
        self.net = nn.Sequential(nn.Linear(obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, act))
        self.register_buffer("mean", torch.zeros(obs))
        self.register_buffer("scale", torch.ones(obs))

    def forward(self, x):
        return self.net((x - self.mean) * self.scale).softmax(-1)


class PolicyServer:
    def __init__(self, policy: Policy, actors: int, device: torch.device):
        self.device = device
        self.policy = policy
        self.x = torch.zeros(actors, policy.obs, device=device)
        self.probs: Optional[torch.Tensor] = None
        self.graph: Optional[torch.cuda.CUDAGraph] = None
        self.stream = torch.cuda.Stream(device)
        self.version = -1
        self.rebuild()

    @torch.no_grad()
    def rebuild(self):
        if self.graph is not None:
            torch.cuda.synchronize(self.device)
            self.graph.reset()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.policy(self.x)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.probs = self.policy(self.x)

    @torch.no_grad()
    def follow(self, state, version):
        """Same shapes: the addresses stay, only the bytes change."""
        own = dict(self.policy.named_parameters())
        own.update(self.policy.named_buffers())
        for name, tensor in own.items():
            tensor.copy_(state[name])
        self.version = version

    def replace(self, policy, version):
        """Another architecture: everything is captured again."""
        self.policy = policy.to(self.device).eval()
        self.x = torch.zeros(self.x.shape[0], policy.obs, device=self.device)
        self.rebuild()
        self.version = version

    def resize(self, actors):
        self.x = torch.zeros(actors, self.policy.obs, device=self.device)
        self.rebuild()

    def act(self, obs):
        self.x.copy_(obs)
        self.graph.replay()
        race = self.probs / torch.empty_like(self.probs).exponential_()
        return race.argmax(-1)


def collect(server, env_step, obs, updates, horizon=128):
    for version, state in enumerate(updates):
        server.follow(state, version)
        actions = []
        for _ in range(horizon):
            action = server.act(obs)
            actions.append(action)
            obs = env_step(action)
        counts = torch.stack(actions).flatten().bincount(minlength=6)
        yield version, counts.tolist()
