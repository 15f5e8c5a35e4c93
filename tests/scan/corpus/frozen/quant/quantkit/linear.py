"""Layers with packed weights."""

import torch
from torch import nn
from torch.nn import functional as F

NF4 = (-1.0, -0.5, 0.0, 0.25, 0.5, 1.0)


class Packed(nn.Module):
    def __init__(self, features=4):
        super().__init__()
        self.register_buffer("codes", torch.randint(0, len(NF4), (features, features)))

    def levels(self, like):
        return torch.tensor(NF4, device=like.device, dtype=like.dtype)  # guilty: level_table GS301

    @property
    def weight(self):
        return self.levels(self.like)[self.codes]

    def forward(self, x):
        self.like = x
        return F.linear(x, self.weight)


class PackedTable(Packed):
    # quiet: level_table_buffer
    def __init__(self, features=4):
        super().__init__(features)
        self.register_buffer("table", torch.tensor(NF4), persistent=False)

    # quiet: level_table_buffer
    def levels(self, like):
        return self.table.to(like.dtype)


class Reordered(nn.Module):
    """Activation order: columns are stored by importance."""

    def __init__(self, features=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features))
        self.order = torch.randperm(features)

    def forward(self, x):
        return F.linear(x[..., self.order], self.weight)  # guilty: activation_order GS302


# quiet: activation_order_buffer
class ReorderedBuffer(Reordered):
    def __init__(self, features=4):
        super().__init__(features)
        order = self.order
        del self.order
        self.register_buffer("order", order)

    def forward(self, x):
        return F.linear(x[..., self.order], self.weight)


class Outliers(nn.Module):
    """Large columns keep their precision."""

    threshold = 1.0

    def __init__(self, features=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features))

    def split(self, x):
        large = (x.abs() > self.threshold).any(0)
        return torch.argwhere(large).flatten(), large  # guilty: outlier_columns GS201

    def forward(self, x):
        columns, large = self.split(x)
        rest = F.linear(x.masked_fill(large, 0.0).round(), self.weight)
        return rest + F.linear(x[:, columns], self.weight[:, columns])


class Adapters(nn.Module):
    """Each row of the batch has its own adapter."""

    def __init__(self, features=4, count=3):
        super().__init__()
        self.down = nn.ParameterList(torch.randn(features, 2) for _ in range(count))
        self.up = nn.ParameterList(torch.randn(2, features) for _ in range(count))

    def forward(self, x, adapter):
        parts = []
        for row, number in zip(x, adapter, strict=True):
            down, up = self.down[number], self.up[number]  # guilty: adapter_number GS101|GS203
            parts.append(row @ down @ up)
        return x + torch.stack(parts)


# quiet: adapter_gather
class GatheredAdapters(Adapters):
    def forward(self, x, adapter):
        down, up = (torch.stack(list(weights))[adapter] for weights in (self.down, self.up))
        return x + (x[:, None] @ down @ up)[:, 0]


class ZeroPoint(nn.Module):
    def forward(self, x):
        codes = torch.zeros(3, device=x.device)
        codes[-1] = 128.0  # guilty: zero_point GS303
        return x - codes.sum()
