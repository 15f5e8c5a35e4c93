from dataclasses import dataclass

import torch


@dataclass
class SlotCache:
    """Keys and values for a fixed number of slots, written in place."""

    k: torch.Tensor
    v: torch.Tensor
    used: torch.Tensor

    @classmethod
    def allocate(cls, slots, heads, length, dim, device):
        shape = (slots, heads, length, dim)
        return cls(
            torch.zeros(shape, device=device),
            torch.zeros(shape, device=device),
            torch.zeros(slots, dtype=torch.long, device=device),
        )

    def put_prompt(self, slot, k, v):
        n = k.shape[1]
        self.k[slot, :, :n] = k
        self.v[slot, :, :n] = v

    def put_token(self, k, v):
        at = self.used.view(-1, 1, 1, 1).expand(-1, self.k.shape[1], 1, self.k.shape[3])
        self.k.scatter_(2, at, k)
        self.v.scatter_(2, at, v)

    def mask(self):
        steps = torch.arange(self.k.shape[2], device=self.k.device)
        return (steps <= self.used[:, None])[:, None, None, :]
