"""An ensemble's votes are counted with torch.mode over the models."""

import torch

import graphsafe


def build(device):
    models = torch.randn(9, 8, 4, device=device)

    def vote(x):
        votes = torch.einsum("bi,mio->mbo", x, models).argmax(-1)
        winner, _ = votes.mode(0)
        return winner, (votes == winner).float().mean(0)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 8))

    return graphsafe.Step(vote, (torch.randn(6, 8, device=device),), refresh=refresh)
