"""Rollouts: the policy and the simulator are recorded apart and run on a stream each, in turn."""

import torch
from torch import nn

ENVS, OBS, ACTIONS, STEPS, EPISODES = 256, 24, 6, 40, 4


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(OBS, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, ACTIONS)
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.body(obs))


class Simulator(nn.Module):
    """A chain of damped masses, pushed by the actions."""

    def __init__(self) -> None:
        super().__init__()
        half = OBS // 2
        self.register_buffer("spring", torch.randn(half, half) / half - 0.4 * torch.eye(half))
        self.register_buffer("push", torch.randn(ACTIONS, half) / ACTIONS)

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        place, speed = obs.chunk(2, dim=-1)
        for _ in range(4):
            speed = 0.98 * speed + 0.05 * (place @ self.spring + action @ self.push)
            place = place + 0.05 * speed
        return torch.cat((place, speed), dim=-1), -place.square().mean(-1)


class Rollout:
    def __init__(self, device: torch.device) -> None:
        self.policy = Policy().to(device).eval()
        self.simulator = Simulator().to(device)
        self.obs = torch.zeros(ENVS, OBS, device=device)
        self.action = torch.zeros(ENVS, ACTIONS, device=device)
        self.reward = torch.zeros(ENVS, device=device)
        self.acting, self.moving = torch.cuda.Stream(), torch.cuda.Stream()
        self.acted, self.moved = torch.cuda.Event(), torch.cuda.Event()
        self.act_graph = self.record(self.act, self.acting)
        self.move_graph = self.record(self.move, self.moving)

    def act(self) -> None:
        self.action.copy_(self.policy(self.obs))

    def move(self) -> None:
        obs, reward = self.simulator(self.obs, self.action)
        self.obs.copy_(obs)
        self.reward.copy_(reward)

    def record(self, what, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            what()
            what()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            what()
        return graph

    def episode(self) -> torch.Tensor:
        self.obs.normal_()
        self.moved.record()
        rewards = []
        for _ in range(STEPS):
            torch.cuda.current_stream().wait_event(self.moved)
            with torch.cuda.stream(self.acting):
                self.act_graph.replay()
                self.acted.record()
            with torch.cuda.stream(self.moving):
                self.moving.wait_event(self.acted)
                self.move_graph.replay()
                rewards.append(self.reward.clone())
                self.moved.record()
        torch.cuda.current_stream().wait_event(self.moved)
        return torch.stack(rewards).mean()


@torch.no_grad()
def main() -> None:
    torch.manual_seed(21)
    rollout = Rollout(torch.device("cuda"))
    returns = [rollout.episode() for _ in range(EPISODES)]
    torch.cuda.synchronize()
    print("reward", [round(value, 5) for value in torch.stack(returns).tolist()])


if __name__ == "__main__":
    main()
