from typing import NamedTuple

import torch


class Plan(NamedTuple):
    slot: torch.Tensor
    kept: torch.Tensor
    load: torch.Tensor


def assign(chosen: torch.Tensor, experts: int, capacity: int) -> Plan:
    hot = torch.zeros(chosen.shape[0], experts, dtype=torch.int64, device=chosen.device)
    hot.scatter_(1, chosen[:, None], 1)
    rank = (hot.cumsum(0) - 1).gather(1, chosen[:, None]).squeeze(1)
    kept = rank < capacity
    slot = torch.where(kept, chosen * capacity + rank, experts * capacity)
    return Plan(slot, kept, hot.sum(0))


def scatter(x: torch.Tensor, plan: Plan, experts: int, capacity: int) -> torch.Tensor:
    box = x.new_zeros(experts * capacity + 1, x.shape[1])
    box.index_copy_(0, plan.slot, x)
    return box[:-1].view(experts, capacity, -1)


def gather(y: torch.Tensor, plan: Plan) -> torch.Tensor:
    flat = torch.cat([y.flatten(0, 1), y.new_zeros(1, y.shape[-1])])
    return flat.index_select(0, plan.slot) * plan.kept[:, None]
