"""The decode step of the engine's model, for `graphsafe capture`."""

from __future__ import annotations

import torch
from serving.engine import Engine


def build(device: torch.device):
    torch.manual_seed(0)
    engine = Engine(device)
    ids = torch.tensor([3, 5], device=device)
    slots = torch.tensor([4, 8], device=device)
    table = torch.tensor([[1, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]], device=device)
    lengths = torch.tensor([1, 1], device=device)
    return engine.model, (ids, engine.cache, slots, table, lengths)
