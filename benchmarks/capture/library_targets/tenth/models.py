"""Steps of efficientnet_pytorch, conformer and alias_free_torch: parts of networks for images and sound."""

import torch
import torch.nn.functional as F
from torch import nn


def _train(device, model, loss_of, arguments):
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(*inputs):
        optimizer.zero_grad()
        loss = loss_of(*inputs)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, arguments


def efficient_training(device):
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", num_classes=5)
    x, y = torch.randn(2, 3, 32, 32, device=device), torch.tensor([1, 3], device=device)
    return _train(device, model, lambda a, b: F.cross_entropy(model(a), b), (x, y))


def efficient_features(device):
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", in_channels=1, include_top=False).to(device).eval()

    def step(x):
        with torch.no_grad():
            return model.extract_features(x)

    return step, (torch.randn(2, 1, 32, 32, device=device),)


def efficient_levels(device):
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", image_size=64).to(device).eval()
    model.set_swish(memory_efficient=False)

    def step(x):
        with torch.no_grad():
            return model.extract_endpoints(x)

    return step, (torch.randn(1, 3, 64, 64, device=device),)


def conformer_training(device):
    from conformer import Conformer

    model = Conformer(dim=32, depth=2, dim_head=16, heads=2, conv_kernel_size=7, attn_dropout=0.1, ff_dropout=0.1)
    x, y = torch.randn(2, 20, 32, device=device), torch.randn(2, 20, 32, device=device)
    return _train(device, model, lambda a, b: F.mse_loss(model(a), b), (x, y))


def conformer_masked(device):
    from conformer import ConformerBlock

    model = ConformerBlock(dim=32, dim_head=16, heads=2, conv_kernel_size=7).to(device).eval()
    mask = torch.ones(2, 20, dtype=torch.bool, device=device)
    mask[1, 15:] = False

    def step(x, mask):
        with torch.no_grad():
            return model(x, mask)

    return step, (torch.randn(2, 20, 32, device=device), mask)


def conformer_causal(device):
    from conformer import ConformerConvModule

    model = ConformerConvModule(dim=32, causal=True, kernel_size=7)
    return _train(device, model, lambda a: model(a).square().mean(), (torch.randn(2, 20, 32, device=device),))


def alias_free_wave_training(device):
    from alias_free_torch import Activation1d

    model = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), Activation1d(nn.GELU()), nn.Conv1d(8, 1, 5, padding=2))
    x, y = torch.randn(2, 1, 64, device=device), torch.randn(2, 1, 64, device=device)
    return _train(device, model, lambda a, b: F.l1_loss(model(a), b), (x, y))


def alias_free_resampling(device):
    from alias_free_torch import DownSample1d, UpSample1d

    up, down = UpSample1d(ratio=3).to(device), DownSample1d(ratio=3).to(device)

    def step(x):
        return down(up(x).tanh())

    return step, (torch.randn(2, 4, 48, device=device),)


def alias_free_images(device):
    from alias_free_torch import Activation2d

    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Activation2d(nn.ReLU())).to(device)

    def step(x):
        return model(x)

    return step, (torch.randn(2, 3, 12, 12, device=device),)
