"""Actor and learner in one process: the collector replays its policy, the learner publishes new weights."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

ENVS, OBS, ACTIONS, CHUNK, UPDATES = 32, 10, 4, 5, 14


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor = nn.Linear(64, ACTIONS)
        self.critic = nn.Linear(64, 1)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(obs)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


@dataclass
class Chunk:
    obs: list[torch.Tensor] = field(default_factory=list)
    actions: list[torch.Tensor] = field(default_factory=list)
    rewards: list[torch.Tensor] = field(default_factory=list)


class Collector:
    def __init__(self, device: torch.device) -> None:
        self.policy = Policy().to(device).requires_grad_(False)
        self.version = 0
        self.obs = torch.randn(ENVS, OBS, device=device)
        self.drift = 0.9 * torch.eye(OBS, device=device)
        self.push = 0.2 * torch.randn(ACTIONS, OBS, device=device)
        self.recorded: dict[tuple[int, int], tuple] = {}

    def publish(self, learner: Policy) -> None:
        with torch.no_grad():
            for mine, new in zip(self.policy.parameters(), learner.parameters()):
                mine.copy_(new)
        self.version += 1

    def record(self) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits, _ = self.policy(self.obs)
            action = logits.argmax(-1)
        return graph, action

    def act(self) -> torch.Tensor:
        key = (self.obs.shape[0], self.version)
        if key not in self.recorded:
            self.recorded.clear()
            self.recorded[key] = self.record()
        graph, action = self.recorded[key]
        graph.replay()
        return action

    def collect(self) -> Chunk:
        chunk = Chunk()
        for _ in range(CHUNK):
            action = self.act()
            chunk.obs.append(self.obs.clone())
            chunk.actions.append(action.clone())
            self.obs.copy_(self.obs @ self.drift + self.push[action] + 0.05 * torch.randn_like(self.obs))
            chunk.rewards.append(-self.obs.square().mean(-1))
        return chunk


def learn(policy: Policy, optimizer: torch.optim.Optimizer, chunk: Chunk) -> torch.Tensor:
    logits, value = policy(torch.cat(chunk.obs))
    reward = torch.cat(chunk.rewards)
    chosen = logits.log_softmax(-1).gather(-1, torch.cat(chunk.actions)[:, None]).squeeze(-1)
    loss = F.mse_loss(value, reward) - (chosen * (reward - value.detach())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return reward.mean()


def main() -> None:
    torch.manual_seed(37)
    device = torch.device("cuda")
    learner = Policy().to(device)
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3)
    collector = Collector(device)
    rewards = []
    for _ in range(UPDATES):
        rewards.append(learn(learner, optimizer, collector.collect()))
        collector.publish(learner)
    print("reward", [round(value, 4) for value in torch.stack(rewards).tolist()])


if __name__ == "__main__":
    main()
