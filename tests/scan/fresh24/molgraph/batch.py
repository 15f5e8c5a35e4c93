"""Several molecules as one disconnected graph."""
from dataclasses import dataclass

import torch


@dataclass
class GraphBatch:
    atoms: torch.Tensor      # [n] element numbers
    coords: torch.Tensor     # [n, 3]
    source: torch.Tensor     # [e]
    target: torch.Tensor     # [e]
    sizes: torch.Tensor      # [g] atoms of each molecule

    @property
    def count(self):
        return self.atoms.shape[0]

    def owner(self):
        """The molecule of each atom."""
        ids = torch.arange(self.sizes.shape[0], device=self.sizes.device)
        return torch.repeat_interleave(ids, self.sizes)

    def in_degree(self):
        return torch.zeros(
            self.count, device=self.target.device
        ).index_add_(0, self.target, torch.ones_like(self.target, dtype=torch.float32))


def random_batch(molecules, atoms_each, edges, device, seed=0):
    gen = torch.Generator().manual_seed(seed)
    n = molecules * atoms_each
    mol = torch.randint(molecules, (edges,), generator=gen) * atoms_each
    src = mol + torch.randint(atoms_each, (edges,), generator=gen)
    dst = mol + torch.randint(atoms_each, (edges,), generator=gen)
    return GraphBatch(
        atoms=torch.randint(1, 10, (n,), generator=gen).to(device),
        coords=torch.randn(n, 3, generator=gen).to(device),
        source=src.to(device),
        target=dst.to(device),
        sizes=torch.full((molecules,), atoms_each).to(device),
    )
