"""Memory of a temporal graph network: sound, the step keeps the time of last events in rows of a device tensor."""
import torch

import graphsafe


def build(device, nodes=10, dim=6):
    memory = torch.zeros(nodes, dim, device=device)
    merge = torch.randn(2 * dim, dim, device=device) / dim**0.5
    last = torch.zeros(nodes, device=device)
    now = torch.zeros((), device=device)

    def step(feature, pair):
        ages = now - last.index_select(0, pair)
        last.index_copy_(0, pair, now.expand(2))
        old = memory.index_select(0, pair)
        old = old * torch.exp(-0.1 * ages).unsqueeze(1)
        new = torch.tanh(torch.cat([old, old.flip(0)], -1) @ merge + feature)
        memory.index_copy_(0, pair, new)
        return new

    def refresh(args, kwargs, k):
        pair = torch.randperm(nodes)[:2]
        args[0].copy_(torch.randn(dim))
        args[1].copy_(pair)
        now.fill_(0.5 * k)

    return graphsafe.Step(step, (torch.randn(dim, device=device), torch.arange(2, device=device)), refresh=refresh)
