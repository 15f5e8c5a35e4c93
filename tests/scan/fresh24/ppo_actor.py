"""PPO on batched pendulums: the actor runs as a CUDA graph, the learner runs eagerly."""
import math

import torch
from torch import nn


class PendulumBatch:
    """Pendulums on the device; episodes end after `horizon` steps or above a speed."""

    def __init__(self, count, device, horizon=60):
        self.count, self.device, self.horizon = count, device, horizon
        self.angle = torch.zeros(count, device=device)
        self.speed = torch.zeros(count, device=device)
        self.age = torch.zeros(count, device=device)

    def reset(self, rows=None):
        rows = torch.ones(self.count, dtype=torch.bool, device=self.device) if rows is None else rows
        angle = (torch.rand(self.count, device=self.device) * 2 - 1) * math.pi
        self.angle.copy_(torch.where(rows, angle, self.angle))
        self.speed.masked_fill_(rows, 0.0)
        self.age.masked_fill_(rows, 0.0)
        return self.observe()

    def observe(self):
        return torch.stack([self.angle.cos(), self.angle.sin(), self.speed], -1)

    def step(self, torque):
        cost = self.angle.square() + 0.1 * self.speed.square() + 1e-3 * torque.square()
        self.speed.add_(0.05 * (15.0 * self.angle.sin() + 3.0 * torque))
        self.angle.add_(0.05 * self.speed)
        self.age.add_(1.0)
        done = (self.age >= self.horizon) | (self.speed.abs() > 8.0)
        return self.observe(), -cost, done


class Policy(nn.Module):
    def __init__(self, inputs=3, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.mean, self.value = nn.Linear(width, 1), nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def forward(self, obs):
        h = self.body(obs)
        return self.mean(h).squeeze(-1), self.value(h).squeeze(-1), self.log_std.exp()

    @staticmethod
    def log_prob(mean, std, action):
        return -0.5 * ((action - mean) / std).square() - std.log() - 0.5 * math.log(2 * math.pi)


class ObservationFilter:
    def __init__(self, width, device):
        self.mean = torch.zeros(width, device=device)
        self.var = torch.ones(width, device=device)
        self.count = 1e-3

    def observe(self, batch):
        n = batch.shape[0]
        total = self.count + n
        delta = batch.mean(0) - self.mean
        self.mean = self.mean + delta * n / total
        self.var = self.var + (batch.var(0) - self.var) * n / total
        self.count = total

    def apply(self, obs):
        return (obs - self.mean) / (self.var + 1e-5).sqrt()


class GraphActor:
    def __init__(self, policy, filt, count, device):
        self.policy, self.filt = policy, filt
        self.obs = torch.zeros(count, 3, device=device)
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.no_grad(), torch.cuda.stream(self.stream):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream(device).wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.action, self.logp, self.value = self._forward()

    def _forward(self):
        mean, value, std = self.policy(self.filt.apply(self.obs))
        action = mean + std * torch.randn_like(mean)
        return action, self.policy.log_prob(mean, std, action), value

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.action.clone(), self.logp, self.value.clone()

    def receive(self, weights):
        self.policy.load_state_dict(weights, assign=True)


class Learner:
    def __init__(self, policy, lr=3e-4, clip=0.2, epochs=2):
        self.policy, self.clip, self.epochs = policy, clip, epochs
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)

    def update(self, batch):
        for _ in range(self.epochs):
            mean, value, std = self.policy(batch["obs"])
            ratio = (self.policy.log_prob(mean, std, batch["action"]) - batch["logp"]).exp()
            adv = batch["return"] - value.detach()
            adv = (adv - adv.mean()) / (adv.std() + 1e-6)
            gain = torch.minimum(ratio * adv, ratio.clamp(1 - self.clip, 1 + self.clip) * adv)
            loss = -gain.mean() + 0.5 * (value - batch["return"]).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def weights(self):
        return {name: p.detach().clone() for name, p in self.policy.state_dict().items()}


def collect(env, actor, filt, obs, length, gamma=0.97):
    rows = {"obs": [], "action": [], "logp": [], "value": [], "reward": []}
    for _ in range(length):
        action, logp, value = actor.act(obs)
        rows["obs"].append(filt.apply(obs))
        rows["action"].append(action)
        rows["logp"].append(logp)
        rows["value"].append(value)
        obs, reward, done = env.step(action)
        rows["reward"].append(reward)
        if done.any():
            obs = env.reset(done)
    filt.observe(obs)
    returns, tail = [], rows["value"][-1]
    for reward in reversed(rows["reward"]):
        tail = reward + gamma * tail
        returns.append(tail)
    batch = {k: torch.stack(v).flatten(0, 1) for k, v in rows.items()}
    batch["return"] = torch.stack(returns[::-1]).flatten()
    return obs, batch


def main(updates=4, envs=16):
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    env, filt = PendulumBatch(envs, device), ObservationFilter(3, device)
    policy = Policy().to(device)
    learner = Learner(Policy().to(device))
    actor = GraphActor(policy, filt, envs, device)
    obs = env.reset()
    for _ in range(updates):
        actor.receive(learner.weights())
        obs, batch = collect(env, actor, filt, obs, length=16)
        learner.update(batch)
    print(f"mean reward {batch['reward'].mean().item():.3f}")


if __name__ == "__main__":
    main()
