"""Steps of several ranks: a sound one, and ranks that raise, die, hang, or issue what the others do not."""

import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn


class Sharded(nn.Module):
    """Each rank holds a part of the inner width."""

    def __init__(self):
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        self.up = nn.Parameter(torch.randn(8, 32).chunk(size, 1)[rank].clone())
        self.down = nn.Parameter(torch.randn(32, 8).chunk(size, 0)[rank].clone())

    def forward(self, x):
        y = torch.relu(x @ self.up) @ self.down
        dist.all_reduce(y)
        return x + y


def made(kind, device, batch=4):
    torch.manual_seed(1)
    return kind().to(device), (torch.randn(batch, 8, device=device),)


def sharded(device, batch=4):
    assert os.environ["RANK"] == str(dist.get_rank()) == str(device.index)
    return made(Sharded, device, batch)


def summed(device):
    linear = torch.nn.Linear(8, 8).to(device).requires_grad_(False)

    def step(x):
        hidden = linear(x)
        dist.all_reduce(hidden)
        return hidden * 2

    return step, (torch.randn(4, 8, device=device),)


def alone(device):
    return torch.tanh, (torch.randn(4, device=device),)


class Counts(Sharded):
    """Python counts the steps; in rank 1 the result depends on it, in rank 0 it is multiplied by zero."""

    steps = 0

    def forward(self, x):
        self.steps += 1
        y = super().forward(x)
        return y * (1 + self.steps) if dist.get_rank() == 1 else torch.add(y, torch.zeros_like(y), alpha=self.steps)


def counts(device):
    return made(Counts, device)


class CountsSlowly(Counts):
    """Rank 1 takes longer, so that rank 0 waits while rank 1 looks for what its step froze."""

    def forward(self, x):
        time.sleep(0.2 * dist.get_rank())
        return super().forward(x)


def counts_slowly(device):
    return made(CountsSlowly, device)


class DecidesLater(Sharded):
    """In rank 1 the twentieth step does something else."""

    steps = 0

    def forward(self, x):
        self.steps += 1
        y = super().forward(x)
        return y * 2 if dist.get_rank() == 1 and self.steps >= 20 else y


def decides_later(device):
    return made(DecidesLater, device)


class Raises(Sharded):
    def forward(self, x):
        if dist.get_rank() == 1:
            raise ValueError("no such head")
        return super().forward(x)


def raises(device):
    return made(Raises, device)


class Dies(Sharded):
    """Rank 1 is killed in the middle of its capture, as by the system for its memory."""

    steps = 0

    def forward(self, x):
        y = super().forward(x)
        self.steps += torch.cuda.is_current_stream_capturing()
        if dist.get_rank() == 1 and self.steps == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return y


def dies(device):
    return made(Dies, device)


class Hangs(Sharded):
    def forward(self, x):
        while dist.get_rank() == 1:
            time.sleep(0.1)
        return super().forward(x)


def hangs(device):
    return made(Hangs, device)


class Logs(Sharded):
    """Rank 0 wants to know the largest output; the others do not tell it theirs."""

    def forward(self, x):
        y = super().forward(x)
        if dist.get_rank() == 0:
            largest = y.abs().max(0).values.repeat(4, 1)
            dist.all_reduce(largest)
        return y


def logs(device):
    return made(Logs, device)


class NeverWaits(Sharded):
    def forward(self, x):
        y = torch.relu(x @ self.up) @ self.down
        work = dist.all_reduce(y, async_op=True)
        z = torch.tanh(x)
        work.wait()
        dist.all_reduce(z.clone(), async_op=True)
        return y + z


def never_waits(device):
    return made(NeverWaits, device)
