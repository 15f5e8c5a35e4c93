import torch

from .field import OccupancyGrid, RadianceField
from .render import Renderer, StratifiedRays


class Adam:
    """Adam whose step count is a tensor beside the moments."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-10):
        self.params = list(params)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.first = [torch.zeros_like(p) for p in self.params]
        self.second = [torch.zeros_like(p) for p in self.params]
        self.count = torch.zeros((), device=self.params[0].device)

    @torch.no_grad()
    def apply(self, grads):
        b1, b2 = self.betas
        self.count.add_(1)
        scale1 = 1 - b1 ** self.count
        scale2 = 1 - b2 ** self.count
        for p, g, m, v in zip(self.params, grads, self.first, self.second):
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            p.sub_(self.lr * (m / scale1) / ((v / scale2).sqrt() + self.eps))


class FieldTrainer:
    def __init__(self, images, origins, directions, device, far=4.0):
        self.colors, self.origins, self.directions = images, origins, directions
        self.field = RadianceField().to(device)
        self.grid = OccupancyGrid(8, device)
        self.renderer = Renderer(self.field, self.grid, StratifiedRays(16, 0.5, far, device), far)
        self.optimizer = Adam(self.field.parameters(), lr=5e-3)
        self.psnr = torch.zeros((), device=device)

    def train_step(self, pixels):
        """`pixels` are indices into the flattened training images."""
        color, weights = self.renderer(self.origins[pixels], self.directions[pixels])
        mse = (color - self.colors[pixels]).square().mean()
        spread = weights.square().sum(-1).mean()
        grads = torch.autograd.grad(mse - 1e-3 * spread, self.optimizer.params)
        self.optimizer.apply(grads)
        self.grid.update(self.field, 64)
        with torch.no_grad():
            self.psnr.lerp_(-10.0 * torch.log10(mse), 0.05)
        return mse.detach(), self.psnr.clone()


def build(device, rays=32):
    torch.manual_seed(4)
    count = 400
    directions = torch.nn.functional.normalize(torch.randn(count, 3, device=device), dim=-1)
    origins = -2.0 * directions
    images = torch.rand(count, 3, device=device)
    trainer = FieldTrainer(images, origins, directions, device)
    return trainer.train_step, (torch.randint(count, (rays,), device=device),)
