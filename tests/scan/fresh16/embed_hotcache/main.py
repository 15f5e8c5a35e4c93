"""Ranks the items of some sessions, the popular ones more often."""

import torch
from cache import HotCache
from scorer import ITEMS, ROWS, WIDTH, Scorer

CATALOG = 400


def sessions(count, device):
    for _ in range(count):
        skew = torch.rand(ROWS, ITEMS, device=device).square()
        yield torch.randn(ROWS, 8, device=device), (skew * (CATALOG - 1)).long()


@torch.inference_mode()
def main():
    torch.manual_seed(3)
    device = torch.device("cuda")
    cache = HotCache(torch.randn(CATALOG, WIDTH), room=96, device=device)
    scorer = Scorer(cache, device)
    scorer.capture()
    ranks = []
    for context, ids in sessions(20, device):
        ranks.append(scorer.score(context, ids))
    torch.save(torch.stack(ranks).cpu(), "ranks.pt")


if __name__ == "__main__":
    main()
