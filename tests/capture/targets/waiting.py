"""Collectives with and without their wait."""

import torch.distributed as dist
from torch.distributed import all_reduce as reduce_all


def drops(x):
    dist.all_reduce(x, async_op=True)


def waits(x):
    work = reduce_all(x, async_op=True)
    work.wait()


def drops_one_of_two(x):
    work = dist.all_reduce(x, async_op=True)
    reduce_all(x, async_op=True)
    work.wait()


def synchronous(x):
    dist.all_reduce(x)
