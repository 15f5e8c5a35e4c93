"""Steps of torchvision models and operators, with weights drawn at random."""

import torch
import torch.nn.functional as F
from torch import nn


class Inference(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.eval().requires_grad_(False)

    @torch.no_grad()
    def forward(self, images):
        return self.model(images)


def images(device, size=32, batch=2):
    return torch.randn(batch, 3, size, size, device=device)


def resnet(device):
    from torchvision.models import resnet18

    return Inference(resnet18(num_classes=10)).to(device), (images(device),)


def vision_transformer(device):
    from torchvision.models import VisionTransformer

    model = VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10)
    nn.init.normal_(model.heads.head.weight, std=0.1)
    return Inference(model).to(device), (images(device),)


def swin(device):
    from torchvision.models.swin_transformer import SwinTransformer

    model = SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10)
    return Inference(model).to(device), (images(device, 64),)


def convnext_training(device):
    """Stochastic depth draws on the device; the update is plain SGD."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    settings = [CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)]
    model = ConvNeXt(settings, stochastic_depth_prob=0.2, num_classes=10).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(batch, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (images(device), torch.randint(0, 10, (2,), device=device))


def segmentation(device):
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5).eval().to(device)

    @torch.no_grad()
    def step(batch):
        return model(batch)["out"].softmax(1)

    return step, (images(device, 64),)


def boxes(device, count=32):
    corners = torch.rand(count, 2, device=device) * 40
    return torch.cat([corners, corners + 2 + torch.rand(count, 2, device=device) * 20], dim=1)


def change_boxes(args, kwargs, k):
    args[0].copy_(boxes(args[0].device))
    args[1].uniform_()


def suppression(device):
    from torchvision.ops import nms

    def step(found, scores):
        kept = nms(found, scores, 0.5)
        return found[kept[:4]]

    return step, (boxes(device), torch.rand(32, device=device))


def aligned_regions(device):
    from torchvision.ops import roi_align

    def step(found, features):
        rows = torch.cat([torch.zeros_like(found[:, :1]), found], dim=1)
        return roi_align(features, rows, output_size=(7, 7), spatial_scale=0.25, sampling_ratio=2)

    return step, (boxes(device), torch.rand(1, 8, 16, 16, device=device))


def preprocessing(device):
    from torchvision.transforms import v2

    transform = v2.Compose([v2.Resize((24, 24), antialias=True), v2.Normalize([0.485, 0.456, 0.406], [0.2, 0.2, 0.2])])
    return transform, (torch.rand(2, 3, 32, 32, device=device),)


CHANGE = {"suppression": change_boxes, "aligned_regions": change_boxes}
