import torch


class BlockPool:
    """Paged key/value memory. Block 0 is reserved for padding rows."""

    def __init__(self, blocks: int, block_size: int, width: int, device: torch.device):
        self.block_size = block_size
        self.width = width
        self.free = list(range(1, blocks))
        self.k = torch.zeros(blocks * block_size, width, device=device)
        self.v = torch.zeros(blocks * block_size, width, device=device)

    @property
    def blocks(self) -> int:
        return self.k.shape[0] // self.block_size

    def take(self) -> int:
        return self.free.pop()

    def give(self, blocks: list[int]) -> None:
        self.free.extend(blocks)

    def flush(self) -> None:
        self.k = torch.zeros_like(self.k)
        self.v = torch.zeros_like(self.v)
        self.free = list(range(1, self.blocks))
