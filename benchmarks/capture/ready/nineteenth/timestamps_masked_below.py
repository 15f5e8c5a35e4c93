"""The timestamp rule of Whisper in decoding: sound, tokens below a device timestamp are masked."""
import torch

import graphsafe

VOCABULARY, BEGIN = 32, 16


def build(device, dim=8):
    head = torch.randn(dim, VOCABULARY, device=device)
    numbers = torch.arange(VOCABULARY, device=device)
    last = torch.full((1,), BEGIN, device=device)

    def step(x):
        logits = x @ head
        logits.masked_fill_((numbers >= BEGIN) & (numbers < last), -1e4)
        probabilities = torch.softmax(logits, -1)
        return probabilities, probabilities[:, BEGIN:].sum(-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, dim))
        spoken = BEGIN + k // 6 % (VOCABULARY - BEGIN)
        last.fill_(spoken)

    return graphsafe.Step(step, (torch.randn(2, dim, device=device),), refresh=refresh)
