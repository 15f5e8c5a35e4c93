"""PPO rollouts without the host: environment and policy share one graph, advantages another."""
import torch
from torch import nn


class PointMass:
    def __init__(self, envs, device):
        self.state = torch.randn(envs, 4, device=device)
        self.fresh = torch.empty(envs, 4, device=device)

    def step(self, action):
        position, velocity = self.state.chunk(2, -1)
        velocity = velocity + 0.1 * action
        position = position + 0.1 * velocity
        reward = -position.square().sum(-1)
        done = position.abs().amax(-1) > 5.0
        moved = torch.cat([position, velocity], -1)
        self.state.copy_(torch.where(done.unsqueeze(1), self.fresh.normal_(), moved))
        return reward, done


class ActorCritic(nn.Module):
    def __init__(self, obs=4, act=2, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, act)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(act))

    def forward(self, obs, noise):
        h = self.body(obs)
        return self.mean(h) + noise * self.log_std.exp(), self.value(h).squeeze(-1)


class Storage:
    def __init__(self, horizon, envs, device):
        self.values = torch.zeros(horizon, envs, device=device)
        self.rewards = torch.zeros(horizon, envs, device=device)
        self.alive = torch.zeros(horizon, envs, device=device)


class Collector:
    def __init__(self, env, model, horizon, device):
        self.env = env
        self.model = model
        self.horizon = horizon
        envs = env.state.shape[0]
        self.noise = torch.zeros(envs, 2, device=device)
        self.storage = Storage(horizon, envs, device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.value, self.reward, self.done = self._step()

    def _step(self):
        action, value = self.model(self.env.state, self.noise.normal_())
        reward, done = self.env.step(action)
        return value, reward, done

    def collect(self):
        for t in range(self.horizon):
            self.graph.replay()
            self.storage.values[t].copy_(self.value)
            self.storage.rewards[t].copy_(self.reward)
            self.storage.alive[t].copy_(~self.done)
        return self.storage


def discounted(storage, gamma=0.99):
    total = torch.zeros_like(storage.rewards[0])
    for reward, alive in zip(reversed(storage.rewards), reversed(storage.alive)):
        total = reward + gamma * total * alive
    return total


def main():
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = ActorCritic().to(device)
    collector = Collector(PointMass(3, device), model, 8, device)
    collector.collect()
    storage = collector.collect()
    print(discounted(storage).tolist(), storage.values.mean().item())


if __name__ == "__main__":
    main()
