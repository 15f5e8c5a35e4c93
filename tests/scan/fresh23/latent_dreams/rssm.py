import torch
from torch import nn
from torch.distributions import OneHotCategorical


class RSSM(nn.Module):
    """Recurrent state-space model with categorical latents."""

    def __init__(self, actions, groups=4, classes=6, deter=32):
        super().__init__()
        self.groups, self.classes, self.deter = groups, classes, deter
        self.join = nn.Linear(groups * classes + actions, deter)
        self.cell = nn.GRUCell(deter, deter)
        self.prior = nn.Sequential(nn.Linear(deter, deter), nn.ELU(), nn.Linear(deter, groups * classes))

    @property
    def width(self):
        return self.deter + self.groups * self.classes

    def draw(self, logits):
        logits = logits.view(-1, self.groups, self.classes)
        probs = 0.99 * logits.softmax(-1) + 0.01 / self.classes
        dist = OneHotCategorical(probs=probs)
        sample = dist.sample()
        return (sample + probs - probs.detach()).flatten(1)

    def imagine(self, h, z, action):
        h = self.cell(torch.relu(self.join(torch.cat([z, action], -1))), h)
        return h, self.draw(self.prior(h))


class Head(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.ELU(), nn.Linear(32, out))

    def forward(self, x):
        return self.net(x)
