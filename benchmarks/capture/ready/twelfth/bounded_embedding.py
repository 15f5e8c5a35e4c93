"""Knowledge-graph scoring with entity embeddings whose norm is bounded by the layer itself."""

import torch

import graphsafe


def build(device):
    entities = torch.nn.Embedding(64, 16, max_norm=1.0).to(device).requires_grad_(False)
    relations = torch.nn.Embedding(8, 16).to(device).requires_grad_(False)

    def score(head, relation, tail):
        return -(entities(head) + relations(relation) - entities(tail)).norm(dim=-1)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(64, (10,)))
        args[1].copy_(torch.randint(8, (10,)))
        args[2].copy_(torch.randint(64, (10,)))

    args = tuple(torch.randint(n, (10,), device=device) for n in (64, 8, 64))
    return graphsafe.Step(score, args, refresh=refresh)
