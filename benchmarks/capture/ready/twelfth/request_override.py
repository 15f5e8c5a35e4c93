"""Sampler settings fall back to the server's when a request gives none of its own."""

import torch

import graphsafe


class Server:
    top_p, penalty = 0.9, 1.3


class Request:
    def __init__(self, server):
        self.server = server

    def __getattr__(self, name):
        return getattr(self.__dict__["server"], name)


def build(device):
    request = Request(Server())
    request.penalty = 1.3
    counts = torch.zeros(2, 50, device=device)

    def sample(logits):
        seen = logits / request.penalty**counts
        ordered, index = seen.softmax(-1).sort(-1, descending=True)
        kept = ordered * (ordered.cumsum(-1) - ordered < request.top_p)
        out = torch.zeros_like(kept).scatter_(-1, index, kept)
        counts.add_((out == out.amax(-1, keepdim=True)).float()).clamp_(max=3)
        return out / out.sum(-1, keepdim=True)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 50) * 2)
        if k == 60:
            Server.top_p = 0.95  # the operator's change for those who fall back
        if k == 120:
            request.top_p = 0.5
        if k == 130:
            del request.top_p

    return graphsafe.Step(sample, (torch.randn(2, 50, device=device),), refresh=refresh)
