import torch
from torch import nn


class CausalEncoder(nn.Module):
    """Convolutional encoder that carries its left context as explicit state."""

    def __init__(self, mels=40, width=64, kernel=3, layers=2):
        super().__init__()
        self.inp = nn.Linear(mels, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, kernel) for _ in range(layers))
        self.out = nn.Linear(width, 32)
        self.kernel = kernel

    def initial(self, batch, device):
        w = self.inp.out_features
        return [torch.zeros(batch, w, self.kernel - 1, device=device) for _ in self.convs]

    def forward(self, feats, context):
        h = self.inp(feats).transpose(1, 2)
        carried = []
        for conv, left in zip(self.convs, context):
            wide = torch.cat([left, h], -1)
            carried.append(wide[..., -(self.kernel - 1) :])
            h = torch.relu(conv(wide))
        return self.out(h.transpose(1, 2)), carried
