"""Policy-gradient rollouts; the policy's forward pass is a captured graph."""
import torch
from torch import nn


class Env:
    """A batch of one-dimensional walkers."""

    def __init__(self, count, device):
        self.pos = torch.zeros(count, 4, device=device)
        self.push = torch.tensor([[-1.0, 0, 0, 1.0], [1.0, 0, 1.0, 0]], device=device)

    def step(self, action):
        self.pos.mul_(0.95).add_(self.push[action], alpha=0.1)
        return self.pos, -self.pos.abs().sum(dim=-1)


class Actor(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden))
        self.pi = nn.Linear(hidden, 2)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = torch.tanh(self.body(obs))
        return torch.log_softmax(self.pi(h), dim=-1), self.value(h).squeeze(-1)


class GraphedActor:
    def __init__(self, actor, count, device):
        self.obs = torch.zeros(count, 4, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad():
            with torch.cuda.stream(side):
                actor(self.obs)
                actor(self.obs)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.logp, self.value = actor(self.obs)

    def __call__(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.logp, self.value


class Trajectory:
    def __init__(self):
        self.logps, self.values, self.rewards = [], [], []

    def add(self, logp, value, reward):
        self.logps.append(logp)
        self.values.append(value)
        self.rewards.append(reward)

    def advantages(self, gamma=0.97):
        ret = torch.zeros_like(self.rewards[0])
        out = []
        for reward, value in zip(reversed(self.rewards), reversed(self.values)):
            ret = reward + gamma * ret
            out.append(ret - value)
        return torch.stack(out[::-1]), torch.stack(self.logps)


def main():
    torch.manual_seed(17)
    device = torch.device("cuda")
    count, horizon = 32, 16
    policy = GraphedActor(Actor().to(device), count, device)
    env = Env(count, device)
    obs = env.pos
    for episode in range(3):
        trajectory = Trajectory()
        for _ in range(horizon):
            logp, value = policy(obs)
            action = logp.argmax(dim=-1)
            obs, reward = env.step(action)
            trajectory.add(logp, value, reward)
        advantage, logps = trajectory.advantages()
        loss = -(advantage.unsqueeze(-1) * logps).mean()
        print(f"episode {episode} surrogate {loss.item():.5f}")


if __name__ == "__main__":
    main()
