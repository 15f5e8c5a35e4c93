"""Evolution strategies: one recorded policy rollout is replayed for every member of the population."""

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

ENVS, OBS, ACT, HORIZON = 32, 8, 2, 12
MEMBERS, GENERATIONS, SIGMA, RATE = 8, 5, 0.05, 0.02


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 32), nn.Tanh(), nn.Linear(32, ACT), nn.Tanh())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.body(obs)


class Pendulums:
    """A batch of linear systems that the policy should bring to rest."""

    def __init__(self, device: torch.device) -> None:
        self.drift = torch.eye(OBS, device=device) + 0.05 * torch.randn(OBS, OBS, device=device)
        self.push = 0.3 * torch.randn(ACT, OBS, device=device)

    def step(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = state @ self.drift + action @ self.push
        return state, -state.square().mean(-1)


class Evaluator:
    def __init__(self, policy: Policy, world: Pendulums, device: torch.device) -> None:
        self.policy = policy
        self.world = world
        self.start = torch.zeros(ENVS, OBS, device=device)
        self.reward = torch.zeros((), device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.rollout()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.rollout()

    def rollout(self) -> None:
        state = self.start
        total = torch.zeros(ENVS, device=state.device)
        for _ in range(HORIZON):
            state, reward = self.world.step(state, self.policy(state))
            total = total + reward
        self.reward.copy_(total.mean())

    def score(self, start: torch.Tensor) -> torch.Tensor:
        self.start.copy_(start)
        self.graph.replay()
        return self.reward.clone()


def load(policy: Policy, genome: torch.Tensor) -> None:
    at = 0
    for weight in policy.parameters():
        weight.copy_(genome[at : at + weight.numel()].view_as(weight))
        at += weight.numel()


def evolve(device: torch.device) -> list[float]:
    policy = Policy().to(device)
    evaluator = Evaluator(policy, Pendulums(device), device)
    centre = parameters_to_vector(policy.parameters()).clone()
    curve = []
    for _ in range(GENERATIONS):
        start = torch.randn(ENVS, OBS, device=device)
        noise = torch.randn(MEMBERS, centre.numel(), device=device)
        scores = []
        for member in noise:
            load(policy, centre + SIGMA * member)
            scores.append(evaluator.score(start))
        fitness = torch.stack(scores)
        fitness = (fitness - fitness.mean()) / (fitness.std() + 1e-6)
        centre += RATE / SIGMA * (fitness[:, None] * noise).mean(0)
        curve.append(torch.stack(scores).mean())
    return torch.stack(curve).tolist()


def main() -> None:
    torch.manual_seed(11)
    with torch.no_grad():
        curve = evolve(torch.device("cuda"))
    print("mean reward by generation:", " ".join(f"{value:.4f}" for value in curve))


if __name__ == "__main__":
    main()
