"""Message passing over a batch of molecules, with pooled predictions per molecule."""
from dataclasses import dataclass
from typing import Dict, Tuple

import torch
from torch import nn


@dataclass
class Molecules:
    kind: torch.Tensor       # [atoms]
    place: torch.Tensor      # [atoms, 3]
    bonds: torch.Tensor      # [2, bonds]
    owner: torch.Tensor      # [atoms]


class Degrees:
    """In-degree of each atom, for mean aggregation."""

    def __init__(self):
        self._known: Dict[Tuple[int, int], torch.Tensor] = {}

    def of(self, bonds: torch.Tensor, atoms: int) -> torch.Tensor:
        key = (bonds.shape[1], atoms)
        if key not in self._known:
            ones = torch.ones(bonds.shape[1], device=bonds.device)
            zero = torch.zeros(atoms, device=bonds.device)
            self._known[key] = zero.index_add_(0, bonds[1], ones).clamp_min_(1)
        return self._known[key]


class Message(nn.Module):
    def __init__(self, width: int, degrees: Degrees):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width))
        self.node = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU())
        self.degrees = degrees

    def forward(self, h, bonds, dist):
        src, dst = bonds[0], bonds[1]
        m = self.edge(torch.cat([h[src], h[dst], dist], dim=-1))
        total = torch.zeros_like(h).index_add_(0, dst, m)
        return h + self.node(torch.cat([h, total / self.degrees.of(bonds, h.shape[0])[:, None]], dim=-1))


class Net(nn.Module):
    def __init__(self, kinds: int = 10, width: int = 64, depth: int = 3, reach: float = 2.5):
        super().__init__()
        self.embed = nn.Embedding(kinds, width)
        self.degrees = Degrees()
        self.layers = nn.ModuleList(Message(width, self.degrees) for _ in range(depth))
        self.reach = reach
        self.head = nn.Linear(width, 1)

    def prune(self, mol: Molecules):
        gap = (mol.place[mol.bonds[0]] - mol.place[mol.bonds[1]]).norm(dim=-1)
        near = gap < self.reach
        return mol.bonds[:, near], gap[near, None]

    def pool(self, h, owner):
        count = owner.max().item() + 1
        out = h.new_zeros(count, h.shape[1])
        return out.index_add_(0, owner, h)

    def rarity(self, kind):
        _, where, amount = torch.unique(kind, return_inverse=True, return_counts=True)
        return amount[where].float().rsqrt()

    def forward(self, mol: Molecules):
        bonds, dist = self.prune(mol)
        h = self.embed(mol.kind) * self.rarity(mol.kind)[:, None]
        for layer in self.layers:
            h = layer(h, bonds, dist)
        return self.head(self.pool(h, mol.owner)).squeeze(-1)


def build(device):
    torch.manual_seed(0)
    atoms, bonds = 200, 640
    mol = Molecules(
        kind=torch.randint(0, 10, (atoms,), device=device),
        place=torch.randn(atoms, 3, device=device),
        bonds=torch.randint(0, atoms, (2, bonds), device=device),
        owner=torch.arange(atoms, device=device) // 10,
    )
    net = Net().to(device).eval().requires_grad_(False)
    return net, (mol,)
