"""On-policy collection for a team of recurrent agents in a predator-prey field; the joint policy runs as a graph."""
import random
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class FieldState:
    agents: list
    prey: list
    age: int = 0


class PursuitField:
    """Host-side environment with one prey per field and `team` pursuers."""

    def __init__(self, team, seed):
        self.team = team
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        spots = [[self.rng.uniform(-1, 1), self.rng.uniform(-1, 1)] for _ in range(self.team + 1)]
        self.state = FieldState(spots[1:], spots[0])

    def observe(self):
        px, py = self.state.prey
        return [[ax, ay, px - ax, py - ay] for ax, ay in self.state.agents]

    def step(self, moves):
        for agent, move in zip(self.state.agents, moves):
            agent[0] += 0.1 * ((move == 1) - (move == 2))
            agent[1] += 0.1 * ((move == 3) - (move == 4))
        px, py = self.state.prey
        near = min((ax - px) ** 2 + (ay - py) ** 2 for ax, ay in self.state.agents)
        self.state.age += 1
        return -near, near < 0.02 or self.state.age >= 7


class TeamPolicy(nn.Module):
    def __init__(self, width=24, moves=5):
        super().__init__()
        self.encode = nn.Linear(4, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.logits = nn.Linear(width, moves)
        self.value = nn.Linear(width, 1)

    def forward(self, obs, hidden):
        fields, team, _ = obs.shape
        own = torch.tanh(self.encode(obs))
        shared = own.mean(1, keepdim=True).expand_as(own)
        joint = torch.cat((own, shared), dim=-1).flatten(0, 1)
        hidden = self.cell(joint, hidden.flatten(0, 1)).view(fields, team, -1)
        return self.logits(hidden), self.value(hidden).squeeze(-1), hidden


@dataclass
class Rollout:
    moves: list = field(default_factory=list)
    values: list = field(default_factory=list)
    rewards: list = field(default_factory=list)


class Collector:
    def __init__(self, policy, fields, team, device):
        self.policy, self.device = policy, device
        self.envs = [PursuitField(team, seed) for seed in range(fields)]
        self.staged = torch.zeros(fields, team, 4, pin_memory=True)
        self.obs = torch.zeros(fields, team, 4, device=device)
        self.hidden = torch.zeros(fields, team, policy.cell.hidden_size, device=device)
        self.upload = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    @torch.no_grad()
    def _decide(self):
        logits, value, hidden = self.policy(self.obs, self.hidden)
        gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        self.hidden.copy_(hidden)
        return (logits + gumbel).argmax(-1), value

    def _capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                self._decide()
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph):
            self.moves, self.value = self._decide()
        self.hidden.zero_()

    def _stage(self):
        for row, env in zip(self.staged, self.envs):
            row.copy_(torch.tensor(env.observe()))
        with torch.cuda.stream(self.upload):
            self.obs.copy_(self.staged, non_blocking=True)

    def collect(self, length):
        out = Rollout()
        for _ in range(length):
            self._stage()
            self.graph.replay()
            out.moves.append(self.moves.clone())
            out.values.append(self.value.clone())
            chosen = self.moves.tolist()
            outcome = [env.step(moves) for env, moves in zip(self.envs, chosen)]
            out.rewards.append([reward for reward, _ in outcome])
            ended = [done for _, done in outcome]
            if any(ended):
                keep = torch.tensor(ended, device=self.device).logical_not()
                self.hidden = self.hidden * keep[:, None, None]
                for env, done in zip(self.envs, ended):
                    if done:
                        env.reset()
        return out


def main():
    torch.manual_seed(8)
    device = torch.device("cuda")
    collector = Collector(TeamPolicy().to(device), fields=6, team=3, device=device)
    for iteration in range(2):
        batch = collector.collect(12)
        rewards, values = torch.tensor(batch.rewards, device=device), torch.stack(batch.values)
        advantage = rewards.flip(0).cumsum(0).flip(0)[..., None] - values
        print(f"iteration {iteration}: reward {rewards.mean():.4f} advantage {advantage.mean():.4f}")


if __name__ == "__main__":
    main()
