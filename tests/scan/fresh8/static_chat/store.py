"""Key/value store with a position that lives on the device."""
import torch


class Store:
    def __init__(self, layers: int, heads: int, room: int, size: int, device: torch.device):
        self.k = [torch.zeros(1, heads, room, size, device=device) for _ in range(layers)]
        self.v = [torch.zeros(1, heads, room, size, device=device) for _ in range(layers)]
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.slots = torch.arange(room, device=device)
        self.room = room

    def put(self, layer: int, k: torch.Tensor, v: torch.Tensor):
        self.k[layer].index_copy_(2, self.at, k)
        self.v[layer].index_copy_(2, self.at, v)
        return self.k[layer], self.v[layer]

    def visible(self) -> torch.Tensor:
        return (self.slots <= self.at).view(1, 1, 1, self.room)

    def forward_one(self) -> None:
        self.at.add_(1).clamp_(max=self.room - 1)

    def clear(self) -> None:
        self.at.zero_()
        for t in (*self.k, *self.v):
            t.zero_()

    def report(self) -> dict:
        used = int(self.at.item())
        return {"used": used, "free": self.room - used, "bytes": sum(t.nbytes for t in (*self.k, *self.v))}
