from dataclasses import dataclass


@dataclass(frozen=True)
class EngineConfig:
    vocab: int = 64
    dim: int = 32
    heads: int = 4
    max_batch: int = 4
    block_size: int = 4
    num_blocks: int = 64
    blocks_per_seq: int = 6

    @property
    def capacity(self) -> int:
        return self.block_size * self.blocks_per_seq
