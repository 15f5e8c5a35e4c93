"""The engine's last tokens become the next step's input: the scheduler copies them in refresh."""
import torch

import graphsafe


class Engine:
    def __init__(self, device):
        self.emb = torch.randn(64, 16).to(device)
        self.out = torch.randn(16, 64).to(device)
        self.bias = torch.zeros(64, device=device)
        self.last = torch.zeros(8, dtype=torch.long, device=device)

    def __call__(self, ids):
        logits = self.emb[ids] @ self.out + self.bias
        self.last.copy_(logits.argmax(-1))
        return self.last, logits


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        args[0].copy_(engine.last)
        engine.bias.copy_(torch.randn(64) * 10)

    return graphsafe.Step(engine, (torch.randint(64, (8,), device=device),), refresh=refresh)
