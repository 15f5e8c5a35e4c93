"""Epsilon-greedy rollouts of a vectorised pole environment on the device."""
import random

import torch
import torch.nn as nn


class PoleEnv:
    def __init__(self, count, device):
        self.state = torch.zeros(count, 4, device=device)
        self.fresh = torch.zeros(count, 4, device=device)
        self.done = torch.zeros(count, dtype=torch.bool, device=device)
        self.reward = torch.zeros(count, device=device)

    def step(self, action):
        force = action.float() * 2.0 - 1.0
        pos, vel, ang, spin = self.state.unbind(1)
        acc = force - 0.1 * spin.square() * torch.sin(ang)
        turn = 9.8 * torch.sin(ang) - torch.cos(ang) * force
        moved = torch.stack(
            [pos + 0.02 * vel, vel + 0.02 * acc, ang + 0.02 * spin, spin + 0.02 * turn], dim=1
        )
        self.state.copy_(moved)
        self.done.copy_((moved[:, 0].abs() > 2.4) | (moved[:, 2].abs() > 0.2))
        self.reward.copy_(1.0 - self.done.float())

    def reset_done(self):
        self.fresh.uniform_(-0.05, 0.05)
        self.state.copy_(torch.where(self.done.unsqueeze(1), self.fresh, self.state))


class Collector:
    def __init__(self, device, envs=16, horizon=64, epsilon=0.2):
        torch.manual_seed(0)
        self.device = device
        self.env = PoleEnv(envs, device)
        self.policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
        self.policy.requires_grad_(False)
        self.epsilon = epsilon
        self.horizon = horizon
        self.action = torch.zeros(envs, dtype=torch.long, device=device)
        self.rewards = torch.zeros(horizon, envs, device=device)
        self.actions = torch.zeros(horizon, envs, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()

    def act(self):
        if random.random() < self.epsilon:
            self.action.random_(0, 2)
        else:
            self.action.copy_(self.policy(self.env.state).argmax(-1))
        self.env.step(self.action)

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.act()
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.act()

    def collect(self):
        self.env.state.uniform_(-0.05, 0.05)
        for t in range(self.horizon):
            self.graph.replay()
            self.rewards[t].copy_(self.env.reward)
            self.actions[t].copy_(self.action)
            if self.env.done.any():
                self.env.reset_done()
        return self.rewards, self.actions


def main():
    random.seed(11)
    device = torch.device("cuda")
    collector = Collector(device)
    collector.capture()
    rewards, actions = collector.collect()
    print("return", rewards.sum(0).mean().item(), "left", (actions == 0).float().mean().item())


if __name__ == "__main__":
    main()
