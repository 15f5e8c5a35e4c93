"""Collect rollouts: the environment runs in numpy, the policy runs as a graph."""
import numpy as np
import torch
from torch import nn


class PointMass:
    """Vectorised point mass; a few lines of numpy."""

    def __init__(self, envs, seed=0):
        self.rng = np.random.default_rng(seed)
        self.envs = envs
        self.state = self.rng.normal(size=(envs, 4)).astype(np.float32)

    def reset(self):
        self.state = self.rng.normal(size=(self.envs, 4)).astype(np.float32)
        return self.state

    def step(self, action):
        self.state[:, 2:] += 0.1 * action
        self.state[:, :2] += 0.1 * self.state[:, 2:]
        reward = -np.square(self.state[:, :2]).sum(-1)
        return self.state, reward.astype(np.float32), np.abs(self.state).max(-1) > 5.0


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=2, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, act)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs):
        h = self.body(obs)
        mean = self.mean(h)
        return mean + torch.randn_like(mean) * self.log_std.exp(), self.value(h).squeeze(-1)


class PolicyGraph:
    def __init__(self, model, envs, device):
        self.obs = torch.zeros(envs, 4, device=device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                model(self.obs)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.action, self.value = model(self.obs)

    def act(self, obs):
        self.obs.copy_(torch.from_numpy(obs))
        self.graph.replay()
        return self.action, self.value


class Worker:
    def __init__(self, env, policy, device):
        self.env = env
        self.policy = policy
        self.device = device
        self.limit = torch.full((env.envs,), -2.0, device=device)

    def collect(self, horizon):
        obs = self.env.reset()
        values, rewards = [], []
        for _ in range(horizon):
            action, value = self.policy.act(obs)
            values.append(value)
            obs, reward, done = self.env.step(action.cpu().numpy())
            rewards.append(torch.from_numpy(reward))
            if (value < self.limit).all():
                break
            if done.any():
                obs = self.env.reset()
        return torch.stack(values), torch.stack(rewards)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = ActorCritic().to(device)
    worker = Worker(PointMass(3), PolicyGraph(model, 3, device), device)
    for epoch in range(2):
        values, rewards = worker.collect(8)
        print(epoch, tuple(values.shape), float(rewards.mean()))


if __name__ == "__main__":
    main()
