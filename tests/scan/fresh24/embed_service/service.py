import random

import torch

from .encoder import Encoder, EncoderConfig
from .graphs import GraphStore
from .staging import Pending, Slot


class EmbeddingService:
    def __init__(self, cfg, device, depth=2):
        torch.manual_seed(0)
        self.encoder = Encoder(cfg).to(device).eval()
        self.store = GraphStore(self.encoder, device)
        self.store.prepare(("mean", "first"))
        self.slots = [Slot(max(GraphStore.ROWS), max(GraphStore.LENGTHS), cfg.dim) for _ in range(depth)]
        self.turn = 0

    def _free_slot(self):
        slot = self.slots[self.turn]
        self.turn = (self.turn + 1) % len(self.slots)
        if slot.owner is not None:
            slot.owner.result()
        return slot

    def submit(self, texts, pooling):
        slot = self._free_slot()
        rows, length = self.store.shape(len(texts), max(map(len, texts)))
        entry = self.store.get(rows, length, pooling)
        ids, lengths = slot.fill(texts, rows, length)
        entry.ids.copy_(ids, non_blocking=True)
        entry.lengths.copy_(lengths, non_blocking=True)
        entry.graph.replay()
        slot.vectors[: len(texts)].copy_(entry.vectors[: len(texts)], non_blocking=True)
        slot.finished.record()
        return Pending(slot, len(texts))


def requests(count, seed=3):
    rng = random.Random(seed)
    for _ in range(count):
        texts = [[rng.randrange(1, 120) for _ in range(rng.randrange(2, 30))] for _ in range(rng.randrange(1, 9))]
        yield texts, rng.choice(("mean", "first"))


@torch.inference_mode()
def main():
    service = EmbeddingService(EncoderConfig(), torch.device("cuda"))
    pending = [service.submit(texts, pooling) for texts, pooling in requests(10)]
    for p in pending:
        vectors = p.result()
        print(tuple(vectors.shape), round(float(vectors.sum()), 4))


if __name__ == "__main__":
    main()
