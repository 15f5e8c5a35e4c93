"""A conv block in training whose BatchNorm keeps a cumulative average (momentum=None)."""
import torch
import torch.nn as nn

import graphsafe


class ConvBN(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(cout, momentum=None)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBN(3, 8)
        self.body = ConvBN(8, 8)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.body(x)
        return self.pool(x).flatten(1)


def build(device):
    torch.manual_seed(3)
    model = Encoder().to(device).train()
    x = torch.randn(4, 3, 16, 16, device=device)

    @torch.no_grad()
    def recalibrate(x):
        """SWA's update_bn, one batch of it."""
        return model(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 3, 16, 16))

    return graphsafe.Step(recalibrate, (x,), refresh=refresh)
