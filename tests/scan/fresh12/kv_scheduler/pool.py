"""Key-value slots in a dataclass, with a free list on the host."""
from dataclasses import dataclass, field

import torch


@dataclass
class Slots:
    keys: torch.Tensor
    values: torch.Tensor
    lengths: torch.Tensor
    free: list = field(default_factory=list)

    @classmethod
    def create(cls, slots, length, dim):
        shape = (slots, length, dim)
        lengths = torch.zeros(slots, dtype=torch.long, device="cuda")
        keys = torch.zeros(shape, device="cuda")
        return cls(keys, torch.zeros(shape, device="cuda"), lengths, list(range(slots)))

    def grow(self, extra):
        more = self.keys.new_zeros(self.keys.shape[0], extra, self.keys.shape[2])
        self.keys = torch.cat([self.keys, more], dim=1)
        self.values = torch.cat([self.values, more], dim=1)
