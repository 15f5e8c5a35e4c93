"""Collects experience for a team of predators that chase prey in many arenas at once."""
from dataclasses import dataclass, field

import torch
from torch import nn


class Arena:
    """Positions on a torus. Prey drift; a prey that is touched by a predator is caught and comes back elsewhere."""

    def __init__(self, arenas: int, predators: int, prey: int, device: torch.device):
        self.predators = torch.rand(arenas, predators, 2, device=device)
        self.prey = torch.rand(arenas, prey, 2, device=device)
        self.drift = 0.02 * torch.randn(arenas, prey, 2, device=device)
        angle = torch.arange(8, device=device) * (3.14159265 / 4)
        self.moves = 0.05 * torch.stack([angle.cos(), angle.sin()], dim=-1)

    def offsets(self) -> torch.Tensor:
        gap = self.prey.unsqueeze(1) - self.predators.unsqueeze(2)
        return gap - gap.round()

    def observe(self) -> torch.Tensor:
        gap = self.offsets()
        nearest = gap.square().sum(-1).argmin(-1, keepdim=True).unsqueeze(-1).expand(-1, -1, 1, 2)
        closest = gap.gather(2, nearest).squeeze(2)
        return torch.cat([closest, gap.mean(2), self.predators], dim=-1)

    def step(self, actions: torch.Tensor) -> torch.Tensor:
        self.predators.add_(self.moves[actions]).remainder_(1.0)
        self.prey.add_(self.drift).remainder_(1.0)
        touched = self.offsets().square().sum(-1) < 0.03**2
        reward = touched.float().sum(2)
        caught = torch.nonzero(touched.any(1))
        self.prey[caught[:, 0], caught[:, 1]] = torch.rand(len(caught), 2, device=reward.device)
        return reward


class Team(nn.Module):
    def __init__(self, observation: int = 6, width: int = 32, actions: int = 8):
        super().__init__()
        self.width = width
        self.encode = nn.Linear(observation, width)
        self.memory = nn.GRUCell(2 * width, width)
        self.actor = nn.Linear(width, actions)

    def forward(self, observation: torch.Tensor, hidden: torch.Tensor):
        a, n, _ = observation.shape
        h = torch.tanh(self.encode(observation))
        message = h.mean(1, keepdim=True).expand_as(h)
        joined = torch.cat([h, message], dim=-1).view(a * n, -1)
        hidden = self.memory(joined, hidden.reshape(a * n, -1)).view(a, n, self.width)
        return self.actor(hidden).log_softmax(-1), hidden


@dataclass
class Trajectory:
    actions: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    rewards: list = field(default_factory=list)

    def stacked(self):
        return torch.stack(self.actions), torch.stack(self.log_probs), torch.stack(self.rewards)


class Collector:
    def __init__(self, team: Team, arena: Arena, device: torch.device, seed: int):
        self.team, self.arena, self.seed = team, arena, seed
        self.obs = arena.observe()
        self.hidden = torch.zeros(*self.obs.shape[:2], team.width, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self.capture()

    def policy(self):
        log_probs, hidden = self.team(self.obs, self.hidden)
        noise = -torch.log(-torch.log(torch.rand_like(log_probs).clamp(1e-6, 1 - 1e-6)))
        action = (log_probs + noise).argmax(-1)
        self.hidden.copy_(hidden)
        return action, log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    @torch.no_grad()
    def capture(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.policy()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.action, self.log_prob = self.policy()
        self.hidden.zero_()

    @torch.no_grad()
    def collect(self, horizon: int) -> Trajectory:
        trajectory = Trajectory()
        self.hidden.zero_()
        for _ in range(horizon):
            torch.manual_seed(self.seed)
            self.obs = self.arena.observe()
            self.graph.replay()
            reward = self.arena.step(self.action)
            trajectory.actions.append(self.action)
            trajectory.log_probs.append(self.log_prob)
            trajectory.rewards.append(reward)
        return trajectory


def main() -> None:
    torch.manual_seed(41)
    device = torch.device("cuda")
    arena = Arena(arenas=12, predators=3, prey=5, device=device)
    team = Team().to(device)
    collector = Collector(team, arena, device, seed=77)
    for episode in range(3):
        actions, log_probs, rewards = collector.collect(horizon=20).stacked()
        distinct = (actions[1:] != actions[:-1]).float().mean()
        print(f"episode {episode}: catches {rewards.sum().item():.0f}, log-prob {log_probs.mean().item():.5f}, "
              f"changes of mind {distinct.item():.3f}")


if __name__ == "__main__":
    main()
