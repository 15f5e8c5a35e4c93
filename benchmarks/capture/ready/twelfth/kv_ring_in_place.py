"""Decode with a sliding cache: the scheduler reads the position and moves the newer half to the front in place."""

import torch

import graphsafe


class Cache:
    def __init__(self, device, room=48, width=16):
        self.rows = torch.zeros(2, room, width, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.room = room

    def write(self, row):
        self.rows.index_copy_(1, self.position, row)
        self.position += 1

    def slide(self):
        if int(self.position) + 1 >= self.room:
            half = self.room // 2
            self.rows[:, :half].copy_(self.rows[:, half:].clone())
            self.rows[:, half:].zero_()
            self.position.sub_(half)


def build(device):
    cache = Cache(device)
    q, kv = torch.randn(16, 16, device=device) / 4, torch.randn(16, 32, device=device) / 4

    def decode(x):
        key, value = (x @ kv).chunk(2, -1)
        cache.write(torch.stack([key, value]))
        seen = torch.arange(cache.room, device=x.device) < cache.position
        scores = (x @ q @ cache.rows[0].T / 4).masked_fill(~seen, float("-inf"))
        return scores.softmax(-1) @ cache.rows[1]

    def refresh(args, kwargs, k):
        cache.slide()
        args[0].copy_(torch.randn(1, 16))

    return graphsafe.Step(decode, (torch.randn(1, 16, device=device),), refresh=refresh)
