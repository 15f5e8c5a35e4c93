"""Contrastive pre-training: keys of the last batches serve as negatives."""

from collections import deque

import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, inputs: int, width: int, outputs: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.body(x), dim=-1)


class Contrast:
    def __init__(self, query: Tower, key: Tower, example: torch.Tensor, batches: int, lr: float = 0.1):
        key.requires_grad_(False)
        self.query, self.key = query, key
        self.queue: deque[torch.Tensor] = deque(maxlen=batches)
        self.optimizer = torch.optim.SGD(query.parameters(), lr=lr, momentum=0.9)
        self.encode_keys = torch.cuda.make_graphed_callables(key, (example,))

    @torch.no_grad()
    def follow(self, momentum: float = 0.99) -> None:
        torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 1 - momentum)

    def loss(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        positive = (queries * keys).sum(-1, keepdim=True)
        negative = queries @ torch.cat(list(self.queue)).T
        logits = torch.cat([positive, negative], -1) / 0.1
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))

    def train_step(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
        keys = self.encode_keys(right)
        loss = None
        if len(self.queue) == self.queue.maxlen:
            loss = self.loss(self.query(left), keys)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.follow()
        self.queue.append(keys)
        return loss


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    query, key = Tower(16, 32, 8).to(device), Tower(16, 32, 8).to(device)
    key.load_state_dict(query.state_dict())
    views = torch.randn(40, 2, 12, 16, device=device)
    contrast = Contrast(query, key, views[0, 1].clone(), batches=4)
    total = torch.zeros((), device=device)
    for left, right in views:
        loss = contrast.train_step(left, right)
        if loss is not None:
            total += loss.detach()
    print("mean loss", float(total) / 36)


if __name__ == "__main__":
    main()
