"""Steps that fail after eight calls, unless their state is reset."""

import torch

import graphsafe


def _make(device, with_reset=True, frozen=False):
    rows, names = torch.zeros(64, 4, device=device), list("abcdefgh")
    position = torch.zeros(1, dtype=torch.long, device=device)
    used = [0]

    def step(x):
        assert names[used[0]]
        used[0] += 1
        rows.index_copy_(0, position, x)
        position.add_(1)
        return rows.sum(0) * (used[0] if frozen else 2)

    def reset():
        used[0] = 0
        position.zero_()
        rows.zero_()

    return graphsafe.Step(step, (torch.randn(1, 4, device=device),), reset=reset if with_reset else None)


def build_reset(device):
    return _make(device)


def build_not_reset(device):
    return _make(device, with_reset=False)


def build_frozen(device):
    return _make(device, frozen=True)


def build_frozen_not_reset(device):
    return _make(device, with_reset=False, frozen=True)
