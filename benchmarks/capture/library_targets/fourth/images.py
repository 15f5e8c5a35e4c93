"""Steps of pytorch-msssim: structural similarity as a loss and as a score."""

import torch
from torch import nn


def similar_training(device):
    """A decoder trained for structural similarity."""
    from pytorch_msssim import SSIM

    model = nn.Conv2d(3, 3, 3, padding=1).to(device)
    similarity = SSIM(data_range=1.0, size_average=True, channel=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, y):
        loss = 1 - similarity(model(x).sigmoid(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(2, 3, 48, 48, device=device), torch.rand(2, 3, 48, 48, device=device))


def scales_training(device):
    """Several scales, as a loss."""
    from pytorch_msssim import MS_SSIM

    model = nn.Conv2d(1, 1, 3, padding=1).to(device)
    similarity = MS_SSIM(data_range=255, size_average=True, channel=1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(x, y):
        loss = 1 - similarity(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = torch.rand(2, 1, 176, 176, device=device) * 255
    return step, (x, x + torch.rand_like(x))


def scored_pictures(device):
    """Scores of each picture of a batch, as an evaluation makes them."""
    from pytorch_msssim import ms_ssim, ssim

    @torch.no_grad()
    def step(x, y):
        return ssim(x, y, data_range=255, size_average=False, nonnegative_ssim=True), ms_ssim(
            x, y, data_range=255, size_average=False, weights=[0.2, 0.3, 0.5]
        )

    x = torch.rand(2, 3, 176, 176, device=device) * 255
    return step, (x, x + torch.rand_like(x))
