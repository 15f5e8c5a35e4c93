"""Mixed-precision training step of a small Fourier neural operator for the 1-d Burgers equation."""
import torch
from torch import nn
import torch.nn.functional as F


class SpectralConv(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        scale = 1.0 / (width * width)
        self.re = nn.Parameter(scale * torch.randn(width, width, modes))
        self.im = nn.Parameter(scale * torch.randn(width, width, modes))

    def forward(self, x):
        n = x.shape[-1]
        coef = torch.fft.rfft(x)[..., : self.modes]
        weight = torch.complex(self.re, self.im)
        mixed = torch.einsum("bim,iom->bom", coef, weight)
        return torch.fft.irfft(F.pad(mixed, (0, n // 2 + 1 - self.modes)), n=n)


class BurgersOperator(nn.Module):
    def __init__(self, width=12, modes=6, depth=2):
        super().__init__()
        self.lift = nn.Conv1d(2, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))
        self.drop = nn.Conv1d(width, 1, 1)

    def forward(self, u0, grid):
        h = self.lift(torch.stack((u0, grid.expand_as(u0)), dim=1))
        for spec, loc in zip(self.spectral, self.local):
            h = F.gelu(spec(h) + loc(h))
        return self.drop(h).squeeze(1)


class DynamicScale:
    """Loss scale with back-off; grows again after `interval` finite steps."""

    def __init__(self, device, start=2.0 ** 10, interval=200):
        self.value = torch.full((), start, device=device)
        self.good = torch.zeros((), device=device)
        self.interval = interval

    def update(self, finite):
        self.good.copy_(torch.where(finite, self.good + 1, torch.zeros_like(self.good)))
        grow = self.good >= self.interval
        factor = 0.5 + finite.float() * (0.5 + grow.float())
        self.value.mul_(factor)
        self.good.mul_((~grow).float())


class OperatorTrainer:
    def __init__(self, model, grid, lr=2e-3, viscosity=0.01):
        self.model = model
        self.grid = grid
        self.lr = lr
        self.viscosity = viscosity
        self.params = list(model.parameters())
        self.moment = [torch.zeros_like(p) for p in self.params]
        self.scale = DynamicScale(grid.device)

    def relative_l2(self, pred, target, observed):
        miss = (pred - target)[observed]
        return miss.square().sum() / target.square().sum().clamp_min(1e-6)

    def smoothness(self, pred):
        stencil = torch.tensor([1.0, -2.0, 1.0], device=pred.device).view(1, 1, 3)
        lap = F.conv1d(pred.unsqueeze(1), stencil)
        return self.viscosity * lap.square().mean()

    def step(self, u0, target, observed):
        pred = self.model(u0, self.grid)
        loss = self.relative_l2(pred, target, observed) + self.smoothness(pred)
        grads = torch.autograd.grad(loss * self.scale.value, self.params)
        grads = [g / self.scale.value for g in grads]
        finite = torch.stack([g.isfinite().all() for g in grads]).all()
        self.scale.update(finite)
        if finite:
            with torch.no_grad():
                for p, m, g in zip(self.params, self.moment, grads):
                    m.mul_(0.9).add_(g)
                    p.sub_(m, alpha=self.lr)
        return loss.detach()


def build(device):
    torch.manual_seed(5)
    points, batch = 32, 4
    grid = torch.linspace(0, 1, points, device=device)
    trainer = OperatorTrainer(BurgersOperator().to(device), grid)
    u0 = torch.randn(batch, points, device=device)
    target = 0.5 * u0.roll(2, dims=1) + 0.1 * torch.randn(batch, points, device=device)
    observed = torch.rand(batch, points, device=device) > 0.2
    return trainer.step, (u0, target, observed)
