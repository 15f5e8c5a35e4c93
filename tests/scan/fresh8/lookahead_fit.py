"""Fine-tunes a classifier whose trunk runs as a graphed callable, with Lookahead weights."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Recipe:
    batch: int = 64
    features: int = 128
    classes: int = 20
    rate: float = 1e-3
    sync_every: int = 6
    epochs: int = 3


class Trunk(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(features, features) for _ in range(4))
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        for layer in self.inner:
            x = x + F.gelu(layer(x))
        return self.norm(x)


class Lookahead:
    def __init__(self, module: nn.Module, pull: float = 0.5):
        self.module = module
        self.pull = pull
        self.anchor = [p.detach().clone() for p in module.parameters()]

    @torch.no_grad()
    def settle(self):
        for slow, p in zip(self.anchor, self.module.parameters()):
            slow.lerp_(p, self.pull)
            p.data = slow.clone()


class FeatureBank:
    def __init__(self, room: int):
        self.room = room
        self.rows: list[torch.Tensor] = []

    def add(self, rows: torch.Tensor):
        self.rows.append(rows)
        del self.rows[: -self.room]

    def spread(self) -> torch.Tensor:
        return torch.stack(self.rows).std(dim=0).mean()


def warm_rate(step: int, recipe: Recipe, total: int) -> float:
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * step / total))


def fit(dataset, recipe: Recipe, device: torch.device):
    trunk = Trunk(recipe.features).to(device)
    head = nn.Linear(recipe.features, recipe.classes).to(device)
    slow = Lookahead(trunk)
    bank = FeatureBank(room=8)
    sample = torch.randn(recipe.batch, recipe.features, device=device)
    trunk = torch.cuda.make_graphed_callables(trunk, (sample,))
    optimizer = torch.optim.AdamW([*trunk.parameters(), *head.parameters()], lr=recipe.rate)
    total = recipe.epochs * len(dataset)
    step, seen = 0, 0.0
    for _ in range(recipe.epochs):
        for batch in dataset:
            x, y = (part.to(device) for part in batch)
            for group in optimizer.param_groups:
                group["lr"] = warm_rate(step, recipe, total)
            features = trunk(x)
            loss = F.cross_entropy(head(features), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bank.add(features.detach())
            seen = 0.95 * seen + 0.05 * loss.item()
            step += 1
            if step % recipe.sync_every == 0:
                slow.settle()
        print(f"step {step}: loss {seen:.4f}, spread {bank.spread().item():.4f}")
    return trunk, head


def fake_data(recipe: Recipe, batches: int = 50):
    return [
        (torch.randn(recipe.batch, recipe.features), torch.randint(0, recipe.classes, (recipe.batch,)))
        for _ in range(batches)
    ]


if __name__ == "__main__":
    plan = Recipe()
    fit(fake_data(plan), plan, torch.device("cuda"))
