import torch
from torch import nn

from .registry import LAYERS


class Base(nn.Module):
    kind = None

    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def mix(self, h):
        return h

    def forward(self, x):
        return x + self.mix(torch.relu(self.lin(x)))


@LAYERS.register
class Shuffle(Base):
    kind = "shuffle"

    def __init__(self, width, groups):
        super().__init__(width)
        per = width // groups
        self.order = [g + groups * i for g in range(groups) for i in range(per)]

    def mix(self, h):
        return h[:, self.order]


@LAYERS.register
class Gain(Base):
    kind = "gain"

    def __init__(self, width, channels):
        super().__init__(width)
        self.gains = [1.0 / (c + 1) for c in range(channels)]

    def mix(self, h):
        g = torch.tensor(self.gains, dtype=h.dtype, device=h.device)
        return h * g


@LAYERS.register
class Clip(Base):
    kind = "clip"

    def __init__(self, width, limit):
        super().__init__(width)
        self.limit = limit

    def mix(self, h):
        return h.clamp(-self.limit, self.limit)
