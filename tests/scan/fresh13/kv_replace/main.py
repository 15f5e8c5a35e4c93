"""Decodes longer answers than the cache holds: old entries are evicted when it is full."""

import torch
from manager import LENGTH, GraphManager

BATCH, KEPT = 3, 16


def answer(manager, prompt, limit):
    tokens = [prompt]
    for _ in range(limit):
        if manager.cache.fill.max() >= LENGTH - 1:
            manager.make_room(KEPT)
        tokens.append(manager.step(tokens[-1]))
    return torch.stack(tokens, 1)


@torch.inference_mode()
def main():
    torch.manual_seed(17)
    manager = GraphManager(BATCH)
    manager.capture()
    prompt = torch.arange(BATCH, device="cuda") + 10
    torch.save(answer(manager, prompt, 90), "answer.pt")


if __name__ == "__main__":
    main()
