"""Slot pool for keys and values; a sequence owns one row of the pool."""
import torch


class KVPool:
    def __init__(self, rows, length, width, device):
        self.keys = torch.zeros(rows, length, width, device=device)
        self.values = torch.zeros(rows, length, width, device=device)
        self.free = list(range(rows))

    def take(self):
        return self.free.pop()

    def give(self, row):
        self.free.append(row)

    def write(self, rows, positions, k, v):
        self.keys[rows, positions] = k
        self.values[rows, positions] = v

    def read(self, rows):
        return self.keys[rows], self.values[rows]
