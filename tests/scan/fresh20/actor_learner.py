"""PPO-style actor: the policy step is a graph, the environment is numpy, the learner publishes weights."""
from collections import namedtuple

import numpy as np
import torch
from torch import nn

Transition = namedtuple("Transition", "obs action logp value reward")


class PendulumBatch:
    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-1, 1, size=(n, 2)).astype(np.float32)

    def observe(self):
        th, om = self.state.T
        return np.stack([np.cos(th), np.sin(th), om], axis=1).astype(np.float32)

    def step(self, torque):
        th, om = self.state.T
        om = np.clip(om + 0.05 * (15 * np.sin(th) + 3 * torque), -8, 8)
        self.state = np.stack([th + 0.05 * om, om], axis=1).astype(np.float32)
        return self.observe(), -(th**2 + 0.1 * om**2)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.mu, self.v = nn.Linear(32, 1), nn.Linear(32, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        h = self.body(obs)
        mu, std = self.mu(h), self.log_std.exp()
        noise = torch.randn_like(mu)
        action = mu + std * noise
        logp = -0.5 * noise.square() - self.log_std
        return action.squeeze(-1), logp.squeeze(-1), self.v(h).squeeze(-1)


class Actor:
    def __init__(self, device, envs=8):
        self.device = device
        self.policy = Policy().to(device)
        self.obs = torch.zeros(envs, 3, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(3):
                self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=side):
            self.action, self.logp, self.value = self.policy(self.obs)

    def pull(self, weights):
        self.policy.load_state_dict(weights, assign=True)

    def collect(self, env, horizon):
        obs, batch = env.observe(), []
        for _ in range(horizon):
            self.obs.copy_(torch.from_numpy(obs))
            self.graph.replay()
            torque = self.action.cpu().numpy()
            nxt, reward = env.step(torque)
            batch.append(Transition(obs, torque, self.logp, self.value, reward))
            obs = nxt
        return batch


class Learner:
    def __init__(self, device):
        self.net = Policy().to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=1e-2)
        self.device = device

    def update(self, batch):
        obs = torch.as_tensor(np.concatenate([t.obs for t in batch]), device=self.device)
        ret = torch.as_tensor(np.concatenate([t.reward for t in batch]), device=self.device).float()
        old = torch.cat([t.value for t in batch])
        _, logp, value = self.net(obs)
        loss = (value - ret / 100).square().mean() - (logp * (ret / 100 - old)).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return {k: v.detach().clone() for k, v in self.net.state_dict().items()}


def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    actor, learner, env = Actor(device), Learner(device), PendulumBatch(8, 1)
    for epoch in range(4):
        batch = actor.collect(env, 6)
        actor.pull(learner.update(batch))
    print(np.mean([t.reward.mean() for t in batch]))


if __name__ == "__main__":
    main()
