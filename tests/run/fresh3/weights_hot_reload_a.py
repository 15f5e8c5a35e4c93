"""A policy server whose weights are refreshed by a trainer between requests."""
import random
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ServerConfig:
    hidden: int = 64
    layers: int = 3
    batch_sizes: tuple = (1, 4, 8)
    requests: int = 24
    reload_every: int = 8


class Policy(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, 16)

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.head(x)


class GraphServer:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.model = Policy(cfg.hidden, cfg.layers).to(device).eval()
        self.pool = None
        self.entries = {}

    @torch.no_grad()
    def capture(self):
        stream = torch.cuda.Stream(self.device)
        for bs in sorted(self.cfg.batch_sizes, reverse=True):
            obs = torch.zeros(bs, self.cfg.hidden, device=self.device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):
                    self.model(obs)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=stream):
                actions = self.model(obs)
            if self.pool is None:
                self.pool = graph.pool()
            self.entries[bs] = (graph, obs, actions)

    def load_weights(self, state):
        state = {name: value.to(self.device) for name, value in state.items()}
        self.model.load_state_dict(state, assign=True)

    def act(self, batch):
        size = next(s for s in sorted(self.entries) if s >= len(batch))
        graph, obs, actions = self.entries[size]
        obs[: len(batch)].copy_(batch)
        graph.replay()
        return actions[: len(batch)].argmax(-1).tolist()


class Trainer:
    def __init__(self, cfg):
        self.model = Policy(cfg.hidden, cfg.layers)

    def publish(self):
        with torch.no_grad():
            for p in self.model.parameters():
                p.add_(torch.randn_like(p) * 0.2)
        return self.model.state_dict()


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch.device("cuda")
    cfg = ServerConfig()
    server, trainer = GraphServer(cfg, device), Trainer(cfg)
    server.load_weights(trainer.publish())
    server.capture()
    counts = [0] * 16
    for request in range(cfg.requests):
        if request and request % cfg.reload_every == 0:
            server.load_weights(trainer.publish())
        batch = torch.randn(rng.choice((1, 3, 4, 6, 8)), cfg.hidden)
        for action in server.act(batch):
            counts[action] += 1
    print("actions", counts)


if __name__ == "__main__":
    main()
