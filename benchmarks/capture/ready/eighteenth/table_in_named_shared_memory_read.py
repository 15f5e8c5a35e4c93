"""A scheduler shares its table of slots under a name: faulty, the step reads its first slot on the host."""
import atexit
from multiprocessing import shared_memory

import numpy as np
import torch

import graphsafe


def build(device, rows=8):
    block = shared_memory.SharedMemory("scheduler_slots", create=True, size=rows * 8)
    atexit.register(block.unlink)
    table = np.ndarray((rows,), dtype=np.int64, buffer=block.buf)
    table[:] = np.arange(rows)
    cache = torch.randn(32, 4, device=device)

    def read(slots):
        first = int(table[0])
        return cache[first] + cache.index_select(0, slots).cumsum(0)

    def refresh(args, kwargs, k):
        table[:] = (table + k) % 32
        args[0].copy_(torch.from_numpy(table))

    return graphsafe.Step(read, (torch.arange(rows, device=device),), refresh=refresh)
