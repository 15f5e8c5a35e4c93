"""PPO with a graphed policy and a loop that collects roll-outs."""
import random

import torch
import torch.nn as nn

ENVS, OBS, ACTIONS, STEPS = 32, 8, 4, 16


class VecPole:
    def __init__(self, device):
        self.state = torch.zeros(ENVS, OBS, device=device)
        self.drift = torch.randn(OBS, OBS, device=device) * 0.05

    def advance(self, action):
        push = action.float().unsqueeze(1) - (ACTIONS - 1) / 2
        wind = random.uniform(-0.1, 0.1)
        self.state.add_(self.state @ self.drift + 0.1 * push + wind)
        fallen = self.state.abs().amax(1, keepdim=True) > 3
        self.state.masked_fill_(fallen, 0.0)
        return self.state, 1.0 - fallen.squeeze(1).float()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, ACTIONS), nn.Linear(64, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class Collector:
    def __init__(self, policy, env):
        self.policy, self.env = policy, env
        self.graph = None

    def once(self):
        logits, value = self.policy(self.env.state)
        action = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
        obs, reward = self.env.advance(action)
        return obs, reward, value

    @torch.no_grad()
    def start(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.once()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.obs, self.reward, self.value = self.once()

    def collect(self):
        rewards, observed = [], []
        for _ in range(STEPS):
            self.graph.replay()
            rewards.append(self.reward)
            observed.append(self.obs.clone())
        return torch.stack(observed), torch.stack(rewards)


def main():
    device = torch.device("cuda")
    policy = Policy().to(device)
    collector = Collector(policy, VecPole(device))
    collector.start()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    for _ in range(10):
        obs, rewards = collector.collect()
        returns = rewards.flip(0).cumsum(0).flip(0)
        _, value = policy(obs)
        loss = (value - returns).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
