"""RLHF-style rollout policy: the trainer's weights arrive between steps by assigning param.data."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Policy(nn.Module):
    def __init__(self, vocab=32, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.fc1, self.fc2 = nn.Linear(d, 32), nn.Linear(32, d)

    def forward(self, ids):
        x = self.emb(ids).mean(1)
        x = x + self.fc2(F.gelu(self.fc1(x)))
        return x @ self.emb.weight.T


class Rollout:
    def __init__(self, device):
        self.policy = Policy().to(device).eval().requires_grad_(False)

    def load_weights(self, named):
        params = dict(self.policy.named_parameters())
        for name, value in named:
            params[name].data = value

    @torch.inference_mode()
    def step(self, ids):
        logits = self.policy(ids)
        return logits.argmax(-1), logits.log_softmax(-1)


def build(device, batch=4):
    r = Rollout(device)
    ids = torch.randint(0, 32, (batch, 5), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 32, (batch, 5)))
        if k % 5 == 4:
            r.load_weights([(n, torch.randn(p.shape).to(device) * 0.2) for n, p in r.policy.named_parameters()])

    return graphsafe.Step(r.step, (ids,), refresh=refresh)
