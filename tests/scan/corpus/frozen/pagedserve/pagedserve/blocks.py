"""Where keys live: block tables, allocators and the writes into the cache."""

from collections import deque

import torch


class BlockTable:
    def __init__(self, config, device):
        ids = torch.arange(config.num_blocks, device=device)
        self._blocks = ids.view(config.max_batch, config.blocks_per_seq)

    def __len__(self):
        return self._blocks.shape[0]

    def __getitem__(self, row):
        return self._blocks[row].tolist()  # guilty: table_rows GS101


class PagedReader:
    """Sums the blocks of every sequence."""

    def __init__(self, config, device):
        self.table = BlockTable(config, device)
        self.cache = torch.zeros(config.num_blocks, config.hidden, device=device)

    def decode_step(self, keys):
        self.cache[: keys.shape[0]].copy_(keys)
        rows = [self.cache[self.table[row]].sum(0) for row in range(len(self.table))]  # guilty: table_rows GS302
        return torch.stack(rows)


class RingAllocator:
    """Hands out blocks round robin."""

    def __init__(self, num_blocks):
        self._ring = deque(range(num_blocks))

    def take(self):
        slot = self._ring[0]
        self._ring.rotate(-1)  # guilty: ring_slots GS702
        return slot


class RingWriter:
    def __init__(self, config, device):
        self.alloc = RingAllocator(config.num_blocks)
        self.cache = torch.zeros(config.num_blocks, config.hidden, device=device)

    def write(self, key):
        self.cache[self.alloc.take()].copy_(key)  # guilty: ring_slots GS702
        return self.cache


class FreeListWriter:
    def __init__(self, config, device):
        self.config = config
        self.free = []
        self.cache = torch.zeros(config.num_blocks, config.hidden, device=device)

    def _next_block(self):
        if not self.free:
            self.free.extend(range(self.config.num_blocks))
        return self.free.pop()  # guilty: free_list GS702

    def write(self, key):
        block = self._next_block()
        self.cache.narrow(0, block, 1).copy_(key)  # guilty: free_list GS702
        return self.cache.clone()


def store_valid(cache, keys, slots):
    """Padding has slot -1."""
    valid = slots >= 0
    cache[slots[valid]] = keys[valid]  # guilty: store_valid GS202
    return cache


# quiet: store_padded
def store_padded(cache, keys, slots):
    """Padding goes to the last row, which nobody reads."""
    target = torch.where(slots >= 0, slots, cache.shape[0] - 1)
    cache.index_copy_(0, target, keys)
    return cache


class TableUploader:
    """Sends the scheduler's table to the device before a step."""

    def __init__(self, config, device):
        shape = (config.max_batch, config.blocks_per_seq)
        self.staging = torch.zeros(shape, dtype=torch.long, pin_memory=device.type == "cuda")
        self.on_device = torch.zeros(shape, dtype=torch.long, device=device)

    def prepare_inputs(self, cache):
        self.on_device.copy_(self.staging)  # guilty: table_upload GS304
        return cache[self.on_device].sum(1)


# quiet: table_upload_async
class AsyncTableUploader(TableUploader):
    def prepare_inputs(self, cache):
        self.on_device.copy_(self.staging, non_blocking=True)
        return cache[self.on_device].sum(1)


class SwapSpace:
    """Pages evicted blocks out to host memory and brings them back."""

    def __init__(self, config, device):
        self.host = {block: torch.zeros(config.hidden) for block in range(config.num_blocks)}
        self.device = device

    def swap_in(self, block):
        return self.host[block].to(self.device)  # guilty: swap_in GS304

    def restore(self, keys, blocks=(0, 1)):
        for row, block in enumerate(blocks):
            keys[row].add_(self.swap_in(block))
        return keys * 2


class AttentionBackend:
    supports_cuda_graph = False

    def build_metadata(self, seq_lens):
        raise NotImplementedError

    def run(self, scores, seq_lens):
        return scores[:, : self.build_metadata(seq_lens)].softmax(-1).amax(0).sum()


class FlatBackend(AttentionBackend):
    supports_cuda_graph = True  # guilty: declared_backend GS801

    def build_metadata(self, seq_lens):
        return seq_lens.max().cpu().item()  # guilty: declared_backend GS101|GS103


class ScatterWriter:
    """Knows on the host which rows it writes."""

    def __init__(self, cache, rows):
        self.cache = cache
        self.rows = torch.tensor(rows)

    def write(self, keys):
        self.cache.index_put_((self.rows,), keys)  # guilty: host_rows GS302
        return self.cache


# quiet: host_rows_moved
class MovedScatterWriter(ScatterWriter):
    def __init__(self, cache, rows):
        super().__init__(cache, rows)
        self.rows = self.rows.to(cache.device)
