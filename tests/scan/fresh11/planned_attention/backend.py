from dataclasses import dataclass

import torch


@dataclass
class WorkSplit:
    owner: torch.Tensor
    offset: torch.Tensor


class VarlenBackend:
    """Attention over packed sequences; the split of packed rows is planned on the device."""

    def __init__(self, rows: int, device: torch.device):
        self.rows = rows
        self.ids = torch.arange(rows, device=device)
        self.split: WorkSplit | None = None

    def reset(self):
        self.split = None

    def _plan(self, lens: torch.Tensor) -> WorkSplit:
        ends = lens.cumsum(0)
        owner = torch.searchsorted(ends, self.ids, right=True)
        return WorkSplit(owner=owner, offset=ends - lens)

    def attend(self, q, k, v, lens):
        if self.split is None:
            self.split = self._plan(lens)
        owner = self.split.owner
        same = owner.unsqueeze(0) == owner.unsqueeze(1)
        causal = self.ids.unsqueeze(0) <= self.ids.unsqueeze(1)
        score = (q @ k.t()) / q.shape[-1] ** 0.5
        return score.masked_fill(~(same & causal), float("-inf")).softmax(-1) @ v
