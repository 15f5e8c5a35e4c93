"""The timestamp rule of Whisper in decoding: faulty, a nonlocal last timestamp cuts the slice of banned tokens."""
import torch

import graphsafe

VOCABULARY, BEGIN = 32, 16


def build(device, dim=8):
    head = torch.randn(dim, VOCABULARY, device=device)
    last = BEGIN

    def step(x):
        logits = x @ head
        logits[:, BEGIN:last] = -1e4
        probabilities = torch.softmax(logits, -1)
        return probabilities, probabilities[:, BEGIN:].sum(-1)

    def refresh(args, kwargs, k):
        nonlocal last
        args[0].copy_(torch.randn(2, dim))
        spoken = BEGIN + k // 6 % (VOCABULARY - BEGIN)
        last = spoken

    return graphsafe.Step(step, (torch.randn(2, dim, device=device),), refresh=refresh)
