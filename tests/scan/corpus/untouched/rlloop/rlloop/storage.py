"""What was seen."""

import numpy as np
import torch


class Replay:
    def __init__(self, capacity, size, device):
        self.data = torch.zeros(capacity, size, device=device)
        self.ptr = 0

    def add(self, row):
        self.data[self.ptr] = row  # guilty: replay_pointer GS702
        self.ptr = (self.ptr + 1) % len(self.data)  # guilty: replay_pointer GS702
        return self.data


# quiet: replay_pointer_tensor
class TensorReplay(Replay):
    def __init__(self, capacity, size, device):
        super().__init__(capacity, size, device)
        self.ptr = torch.zeros(1, dtype=torch.long, device=device)

    def add(self, row):
        self.data.index_copy_(0, self.ptr, row[None])
        self.ptr.add_(1).remainder_(len(self.data))
        return self.data


class UniformReplay(Replay):
    def sample(self, rows):
        self.data.copy_(rows)
        drawn = np.random.randint(0, len(self.data), 3)  # guilty: replay_sample GS504
        return self.data[torch.as_tensor(drawn)]  # guilty: replay_sample GS302|GS504


class Rollout:
    def __init__(self, obs):
        self.obs = obs

    def minibatches(self, size):
        for rows in torch.randperm(len(self.obs)).split(size):  # guilty: minibatch_rows GS504
            yield self.obs[rows]  # guilty: minibatch_rows GS302


class DeviceRollout(Rollout):
    # quiet: minibatch_rows_device
    def minibatches(self, size):
        for rows in torch.randperm(len(self.obs), device=self.obs.device).split(size):
            yield self.obs[rows]


def epoch(rollout, size=2):
    return sum(batch.square().mean() * (n + 1) for n, batch in enumerate(rollout.minibatches(size)))


class Normalizer:
    def __init__(self, size, device):
        self.mean = torch.zeros(size, device=device)
        self.seen = 1

    def __call__(self, obs):
        self.seen += len(obs)  # guilty: observed_rows GS702
        self.mean.add_((obs - self.mean).sum(0) / self.seen)  # guilty: observed_rows GS702
        return obs - self.mean


def returns(rewards, dones, gamma=0.9):
    total, out = torch.zeros_like(rewards[0]), []
    for t in reversed(range(len(rewards))):
        if dones[t]:  # guilty: episode_ends GS102
            total = torch.zeros_like(total)
        total = rewards[t] + gamma * total
        out.append(total)
    return torch.stack(out[::-1])
