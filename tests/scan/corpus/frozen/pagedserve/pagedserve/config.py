from dataclasses import dataclass


@dataclass
class EngineConfig:
    max_batch: int = 4
    blocks_per_seq: int = 3
    block_size: int = 2
    hidden: int = 8
    vocab: int = 16
    eos: int = 2

    @property
    def num_blocks(self):
        return self.max_batch * self.blocks_per_seq
