"""Collects rollouts of a recurrent policy in a vectorised pole world; ended episodes are masked on the device."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn as nn

ENVS, OBS, HIDDEN = 24, 4, 32


@dataclass
class Storage:
    horizon: int
    obs: torch.Tensor = field(init=False)
    values: torch.Tensor = field(init=False)
    rewards: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.obs = torch.zeros(self.horizon, ENVS, OBS, device="cuda")
        self.values = torch.zeros(self.horizon, ENVS, device="cuda")
        self.rewards = torch.zeros(self.horizon, ENVS, device="cuda")

    def add(self, step, obs, value, reward):
        self.obs[step].copy_(obs)
        self.values[step].copy_(value)
        self.rewards[step].copy_(reward)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(OBS, HIDDEN)
        self.heads = nn.Linear(HIDDEN, 2)

    def forward(self, obs, hidden):
        hidden = self.cell(obs, hidden)
        force, value = self.heads(hidden).unbind(-1)
        return force.tanh(), value, hidden


def graphed(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = step()
    return graph, outputs


class Collector:
    def __init__(self, policy, horizon):
        self.policy = policy
        self.storage = Storage(horizon)
        self.obs = torch.zeros(ENVS, OBS, device="cuda")
        self.hidden = torch.zeros(ENVS, HIDDEN, device="cuda")
        self.force = torch.zeros(ENVS, device="cuda")
        self.act_graph, self.value = graphed(self.act)
        self.world_graph, (self.reward, self.done) = graphed(self.world)

    def act(self):
        force, value, hidden = self.policy(self.obs, self.hidden)
        self.hidden.copy_(hidden)
        self.force.copy_(force)
        return value

    def world(self):
        place, speed, angle, turn = self.obs.unbind(-1)
        push = self.force + 0.05 * torch.randn_like(self.force)
        turn = turn + 0.1 * (angle.sin() - push * angle.cos())
        speed = speed + 0.1 * push
        self.obs.copy_(torch.stack([place + 0.1 * speed, speed, angle + 0.1 * turn, turn], -1))
        done = self.obs[:, 2].abs() > 0.5
        return 1.0 - self.obs[:, 2].abs(), done

    def collect(self):
        for step in range(self.storage.horizon):
            self.act_graph.replay()
            self.world_graph.replay()
            self.storage.add(step, self.obs, self.value, self.reward)
            alive = (~self.done).unsqueeze(1)
            self.hidden.mul_(alive)
            self.obs.mul_(alive)
        return self.storage.values, self.storage.rewards


@torch.no_grad()
def main():
    torch.manual_seed(10)
    collector = Collector(Policy().cuda(), horizon=32)
    rounds = []
    for _ in range(3):
        values, rewards = collector.collect()
        rounds.append((rewards - values).mean())
    torch.save(torch.stack(rounds), "advantages.pt")


if __name__ == "__main__":
    main()
