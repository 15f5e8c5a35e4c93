import torch

from config import EngineConfig


class BlockManager:
    """Owns the paged key/value storage and hands out blocks to sequences."""

    def __init__(self, cfg: EngineConfig, device: torch.device):
        self.cfg = cfg
        self.device = device
        slots = cfg.num_blocks * cfg.block_size
        self.keys = torch.zeros(slots, cfg.dim, device=device)
        self.values = torch.zeros(slots, cfg.dim, device=device)
        # Block 0 is never handed out; idle rows point at it.
        self.null_table = torch.zeros(cfg.max_batch, cfg.blocks_per_seq, dtype=torch.long, device=device)
        self._free = list(range(1, cfg.num_blocks))
        self._owned: dict[int, torch.Tensor] = {}

    def admit(self, seq_id: int) -> None:
        blocks = [self._free.pop() for _ in range(self.cfg.blocks_per_seq)]
        self._owned[seq_id] = torch.tensor(blocks, dtype=torch.long, device=self.device)

    def release(self, seq_id: int) -> None:
        self._owned.pop(seq_id)

    def table_for(self, seq_ids: list[int]) -> torch.Tensor:
        return torch.stack([self._owned[s] for s in seq_ids])

    def slots(self, table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        block = table.gather(1, (positions // self.cfg.block_size).unsqueeze(1)).squeeze(1)
        return block * self.cfg.block_size + positions % self.cfg.block_size

    def store(self, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        self.keys.index_copy_(0, slots, k)
        self.values.index_copy_(0, slots, v)

    def gather(self, table: torch.Tensor, span: int) -> tuple[torch.Tensor, torch.Tensor]:
        offs = torch.arange(self.cfg.block_size, device=table.device)
        flat = (table.unsqueeze(-1) * self.cfg.block_size + offs).flatten(1)[:, :span]
        return self.keys[flat], self.values[flat]
