from dataclasses import dataclass

import torch


@dataclass
class PageTable:
    """Device-side paging: block ids of every sequence and how far each one has got."""

    blocks: torch.Tensor
    length: torch.Tensor
    page: int

    def slot(self) -> torch.Tensor:
        which = (self.length // self.page).clamp(max=self.blocks.shape[1] - 1)
        return self.blocks.gather(1, which.unsqueeze(1)).squeeze(1) * self.page + self.length % self.page

    def flat(self) -> torch.Tensor:
        inner = torch.arange(self.page, device=self.blocks.device)
        return (self.blocks.unsqueeze(-1) * self.page + inner).flatten(1)

    def visible(self) -> torch.Tensor:
        span = self.blocks.shape[1] * self.page
        return torch.arange(span, device=self.length.device) <= self.length.unsqueeze(1)


class Pages:
    def __init__(self, count: int, page: int, dim: int, device: torch.device):
        self.k = torch.zeros(count * page, dim, device=device)
        self.v = torch.zeros(count * page, dim, device=device)

    def store(self, slot: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        self.k[slot] = k
        self.v[slot] = v

    def load(self, flat: torch.Tensor):
        return self.k[flat], self.v[flat]
