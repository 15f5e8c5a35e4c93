import collections
import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


class Meter:
    def __init__(self, window=50):
        self.values = collections.defaultdict(lambda: collections.deque(maxlen=window))

    def push(self, name, tensor):
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return
        self.values[name].append(tensor.detach().float().mean().item())

    def mean(self, name):
        seen = self.values[name]
        return sum(seen) / max(1, len(seen))


class SpectralLinear(nn.Module):
    def __init__(self, inp, out, meter):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, inp) / inp**0.5)
        self.register_buffer("u", F.normalize(torch.randn(out), dim=0))
        self.meter = meter
        with torch.no_grad():
            sigma = torch.linalg.svdvals(self.weight)[0].item()
        self.gain = 1.0 / sigma

    def sigma(self):
        with torch.no_grad():
            v = F.normalize(self.weight.t() @ self.u, dim=0)
            self.u.copy_(F.normalize(self.weight @ v, dim=0))
        return torch.dot(self.u, self.weight @ v)

    def forward(self, x):
        sigma = self.sigma()
        self.meter.push("sigma", sigma)
        return F.linear(x, self.weight / sigma) * self.gain


class Critic(nn.Module):
    def __init__(self, inp, width, meter, depth=2):
        super().__init__()
        self.meter = meter
        sizes = [inp] + [width] * depth
        self.layers = nn.ModuleList(SpectralLinear(a, b, meter) for a, b in zip(sizes, sizes[1:]))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
        score = self.out(x)
        if not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing():
            low, high = score.detach().aminmax()
            logger.debug("scores in [%.3f, %.3f]", low.item(), high.item())
            if not bool(torch.isfinite(score).all()):
                raise FloatingPointError("critic diverged")
        return score


def build(device):
    torch.manual_seed(0)
    critic = Critic(16, 32, Meter()).to(device)
    real, fake = torch.randn(20, 16, device=device), torch.randn(20, 16, device=device)

    def hinge(real, fake):
        with torch.no_grad():
            return F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()

    return hinge, (real, fake)
