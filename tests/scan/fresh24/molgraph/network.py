import torch
from torch import nn

from .layers import GatedReadout, InteractionBlock, RadialBasis


class MoleculeNet(nn.Module):
    def __init__(self, width=32, bins=12, depth=2, elements=12, cutoff=4.0):
        super().__init__()
        self.embed = nn.Embedding(elements, width)
        self.basis = RadialBasis(bins, cutoff)
        self.blocks = nn.ModuleList(InteractionBlock(width, bins) for _ in range(depth))
        self.readout = GatedReadout(width)
        self.context = nn.Linear(width, width)

    def forward(self, batch):
        h = self.embed(batch.atoms)
        r = (batch.coords[batch.source] - batch.coords[batch.target]).norm(dim=-1)
        basis = self.basis(r)
        owner = batch.owner()
        for block in self.blocks:
            h = block(h, basis, batch)
            pooled = torch.zeros(
                batch.sizes.shape[0], h.shape[1], device=h.device
            ).index_add_(0, owner, h)
            h = h + self.context(pooled)[owner]
        return self.readout(h, batch)
