"""Training step with everything fused: clipping, AdamW with its rate on the device, average of the weights by foreach."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Trainer:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(32, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 10)).to(device)
        self.parameters = list(self.model.parameters())
        self.average = [p.detach().clone() for p in self.parameters]
        self.rate = torch.tensor(1e-3, device=device)
        self.limit = torch.tensor(1.0, device=device)
        matrices = [p for p in self.parameters if p.dim() > 1]
        vectors = [p for p in self.parameters if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=self.rate, fused=True, capturable=device.type == "cuda")
        self.x, self.y = torch.zeros(48, 32, device=device), torch.zeros(48, dtype=torch.long, device=device)
        self.seen = 0

    def next_batch(self, args, kwargs, k):
        self.seen += 48
        self.rate.fill_(1e-3 * 0.5 * (1 + math.cos(math.pi * (k % 200) / 200)))
        self.limit.fill_(1.0 if k < 90 else 0.3)
        self.x.copy_(torch.randn(48, 32))
        self.y.copy_((self.x.cpu()[:, :10]).argmax(-1))

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters])
        factor = (self.limit / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_([p.grad for p in self.parameters], factor)
        self.optimizer.step()
        torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 0.01)
        return loss.detach(), norm


def build(device):
    trainer = Trainer(device)
    return graphsafe.Step(trainer.step, (), {}, refresh=trainer.next_batch)
