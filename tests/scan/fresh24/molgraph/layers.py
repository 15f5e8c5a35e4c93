import torch
from torch import nn


class RadialBasis(nn.Module):
    def __init__(self, bins, cutoff):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, cutoff, bins))
        self.gamma = bins / cutoff

    def forward(self, r):
        return torch.exp(-self.gamma * (r.unsqueeze(-1) - self.centers).square())


class DegreeNorm(nn.Module):
    """Scales messages by the inverse root of the receiver's degree."""

    def __init__(self):
        super().__init__()
        self.inv_root = None

    def forward(self, messages, batch):
        if self.inv_root is None or self.inv_root.shape[0] != batch.count:
            self.inv_root = (batch.in_degree() + 1.0).rsqrt()
        return messages * self.inv_root[batch.target].unsqueeze(-1)


class InteractionBlock(nn.Module):
    def __init__(self, width, bins):
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(bins, width), nn.SiLU(), nn.Linear(width, width))
        self.mix = nn.Linear(width, width)
        self.norm = DegreeNorm()

    def forward(self, h, basis, batch):
        messages = self.mix(h)[batch.source] * self.filter(basis)
        messages = self.norm(messages, batch)
        return h + torch.zeros_like(h).index_add_(0, batch.target, messages)


class GatedReadout(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 1)
        self.value = nn.Linear(width, 1)

    def forward(self, h, batch):
        per_atom = torch.sigmoid(self.gate(h)) * self.value(h)
        parts = per_atom.squeeze(-1).split(batch.sizes.tolist())
        return torch.stack([part.sum() for part in parts])
