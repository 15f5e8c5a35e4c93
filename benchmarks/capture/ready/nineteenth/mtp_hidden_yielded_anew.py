"""Drafts of a multi-token predictor: faulty, the target is a generator which yields a new hidden state each time."""
from types import SimpleNamespace

import torch

import graphsafe


def target_model(embedding, mixer, device):
    hidden = torch.zeros(1, mixer.shape[0], device=device)
    while True:
        token = yield hidden
        update = torch.tanh(embedding[token : token + 1] + hidden @ mixer)
        hidden = update


def build(device, vocabulary=24, dim=8):
    embedding = torch.randn(vocabulary, dim, device=device)
    mixer = torch.randn(dim, dim, device=device) / dim**0.5
    merge = torch.randn(2 * dim, dim, device=device) / dim**0.5
    target = target_model(embedding, mixer, device)
    handed = SimpleNamespace(hidden=next(target))

    def step(drafts):
        tokens = embedding.index_select(0, drafts)
        joined = torch.cat([handed.hidden.expand(len(tokens), -1), tokens], -1)
        return torch.softmax(torch.tanh(joined @ merge) @ embedding.T, -1)

    def refresh(args, kwargs, k):
        handed.hidden = target.send(k * 7 % vocabulary)
        args[0].copy_(torch.randint(vocabulary, (4,)))

    return graphsafe.Step(step, (torch.arange(4, device=device),), refresh=refresh)
