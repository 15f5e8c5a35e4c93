import torch


class RollingKV:
    """Sliding-window keys and values of one layer."""

    def __init__(self, rows: int, heads: int, window: int, dim: int, device):
        self.window = window
        self.keys = torch.zeros(rows, heads, window, dim, device=device)
        self.vals = torch.zeros(rows, heads, window, dim, device=device)
        self.digest = torch.zeros(rows, heads, dim, device=device)
        self.cursor = 0

    def push(self, k: torch.Tensor, v: torch.Tensor) -> None:
        slot = self.cursor % self.window
        self.keys[:, :, slot] = k
        self.vals[:, :, slot] = v
        self.cursor += 1
        self.digest = torch.lerp(self.digest, k, 0.05)

    def read(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.keys, self.vals
