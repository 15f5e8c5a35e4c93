"""Vectorised cart-pole with auto reset, everything on the accelerator."""
import math

import numpy as np
import torch


class Space:
    def __init__(self, low, high):
        self.low = np.asarray(low, dtype=np.float32)
        self.high = np.asarray(high, dtype=np.float32)

    def sample(self, n):
        return np.random.uniform(self.low, self.high, size=(n, self.low.shape[0])).astype(np.float32)


class VecEnv:
    max_steps = 500

    def __init__(self, count, device):
        self.count = count
        self.device = device
        self.elapsed = torch.zeros(count, dtype=torch.long, device=device)
        self.returns = torch.zeros(count, device=device)

    def _reset_rows(self, rows):
        raise NotImplementedError

    def step(self, action):
        reward, done = self._advance(action)
        self.elapsed.add_(1)
        self.returns.add_(reward)
        done = done | (self.elapsed >= self.max_steps)
        if done.any():
            rows = done.nonzero().squeeze(-1)
            self._reset_rows(rows)
            self.elapsed.index_fill_(0, rows, 0)
            self.returns.index_fill_(0, rows, 0.0)
        return self.observation(), reward, done


class CartPole(VecEnv):
    gravity, masscart, masspole, length, force, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, count, device):
        super().__init__(count, device)
        self.start = Space([-0.05] * 4, [0.05] * 4)
        self.state = torch.from_numpy(self.start.sample(count)).to(device)

    def observation(self):
        return self.state.clone()

    def _advance(self, action):
        x, v, th, w = self.state.unbind(-1)
        f = (action.float() * 2 - 1) * self.force
        total = self.masscart + self.masspole
        ml = self.masspole * self.length
        temp = (f + ml * w * w * th.sin()) / total
        acc = (self.gravity * th.sin() - th.cos() * temp) / (
            self.length * (4 / 3 - self.masspole * th.cos() ** 2 / total)
        )
        xacc = temp - ml * acc * th.cos() / total
        new = torch.stack([x + self.tau * v, v + self.tau * xacc, th + self.tau * w, w + self.tau * acc], -1)
        self.state.copy_(new)
        out = (new[:, 0].abs() > 2.4) | (new[:, 2].abs() > 12 * math.pi / 180)
        return torch.ones_like(new[:, 0]), out

    def _reset_rows(self, rows):
        fresh = self.start.sample(rows.shape[0])
        self.state[rows] = torch.as_tensor(fresh, device=self.device)


def build(device):
    np.random.seed(0)
    torch.manual_seed(0)
    env = CartPole(64, device)
    env.state[:5, 0] = 2.39
    env.state[:5, 1] = 3.0
    env.state[3, 0] = 2.5
    return env.step, (torch.randint(0, 2, (64,), device=device),)
