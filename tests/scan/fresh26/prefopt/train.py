"""Entry point: python -m prefopt.train"""
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from prefopt.engine import PreferenceEngine
from prefopt.policy import PolicyLM


class PairStore:
    def __init__(self, count, length, vocab, device):
        g = torch.Generator().manual_seed(17)
        self.chosen = torch.randint(0, vocab, (count, length), generator=g).to(device)
        self.rejected = torch.randint(0, vocab, (count, length), generator=g).to(device)
        mask = torch.ones(count, length)
        mask[:, : length // 2] = 0
        self.mask = mask.to(device)

    def batches(self, size):
        for lo in range(0, self.chosen.shape[0] - size + 1, size):
            window = slice(lo, lo + size)
            yield (self.chosen[window], self.mask[window]), (self.rejected[window], self.mask[window])


def main():
    torch.manual_seed(1)
    device = torch.device("cuda")
    pairs, length = 4, 10
    policy = PolicyLM().to(device)
    store = PairStore(24, length, policy.vocab, device)
    engine = PreferenceEngine(policy, pairs, length, device)
    engine.record()
    for epoch in range(2):
        losses = [engine.train_batch(c, r) for c, r in store.batches(pairs)]
        print(f"epoch {epoch} loss {torch.stack(losses).mean().item():.4f} beta {engine.control.beta:.3f}")


if __name__ == "__main__":
    main()
