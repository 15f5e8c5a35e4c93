"""Image loading, augmentation and evaluation steps."""
from contextlib import nullcontext

import torch
from torch import nn
import torch.nn.functional as F


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


def host_images(device, shape):
    images = torch.randn(shape)
    return images.pin_memory() if device.type == "cuda" else images


class UploadLane:
    def __init__(self, device):
        self.images = torch.zeros(2, 3, 8, 8, device=device)
        self.w = torch.randn(192, 10, device=device) / 14
        self.copies = lane(device)

    def __call__(self, images):
        with on(self.copies):
            self.images.copy_(images, non_blocking=True)
        return self.images.flatten(1) @ self.w


def build_upload_lane(device):
    return UploadLane(device), (host_images(device, (2, 3, 8, 8)),)


class PrefetchPair:
    """Classify the image that arrived last time while the next one is under way."""

    def __init__(self, device):
        self.current = torch.zeros(2, 3, 8, 8, device=device)
        self.coming = torch.zeros_like(self.current)
        self.w = torch.randn(192, 10, device=device) / 14
        self.copies = lane(device)

    def __call__(self, images):
        if self.copies is not None:
            self.copies.wait_stream(torch.cuda.current_stream())
        with on(self.copies):
            self.coming.copy_(images, non_blocking=True)
        logits = self.current.flatten(1) @ self.w
        if self.copies is not None:
            torch.cuda.current_stream().wait_stream(self.copies)
        self.current.copy_(self.coming)
        return torch.log_softmax(logits, dim=-1)


def build_prefetch_pair(device):
    return PrefetchPair(device), (host_images(device, (2, 3, 8, 8)),)


class MetricLane(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
        self.register_buffer("entropy", torch.zeros(4, device=device))
        self.side = lane(device)

    @torch.no_grad()
    def forward(self, images):
        logits = self.net(images)
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with on(self.side):
            p = torch.softmax(logits, dim=-1)
            self.entropy.lerp_(-(p * torch.log(p + 1e-9)).sum(dim=-1), 0.1)
        return logits.argmax(dim=-1), logits


def build_metric_lane(device):
    return MetricLane(device), (torch.randn(4, 3, 8, 8, device=device),)


def build_uint8_resize(device):
    mean = torch.tensor([0.48, 0.45, 0.4], device=device).view(1, 3, 1, 1)

    def step(images):
        small = F.interpolate(images, size=(12, 12), mode="bilinear", align_corners=False)
        return small.float().div(255.0).sub(mean)

    return step, (torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8, device=device),)


class PaddedEncoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        block = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2)
        self.register_buffer("places", torch.arange(12))

    def forward(self, patches, count):
        padding = self.places >= count.unsqueeze(1)
        return self.encoder(patches, src_key_padding_mask=padding)[:, 0]


def build_padded_encoder(device):
    model = PaddedEncoder().to(device).eval().requires_grad_(False)
    return model, (torch.randn(3, 12, 16, device=device), torch.tensor([12, 4, 4], device=device))


PARTNERS = {}


def build_mosaic(device, batch=4):
    ways = torch.arange(batch, device=device) % (batch // 2)
    partners = PARTNERS.setdefault("mosaic", ways)[:batch]

    def step(images, weight):
        return images * weight + images[partners] * (1.0 - weight)

    return step, (torch.randn(batch, 3, 4, 4, device=device), torch.rand(batch, 1, 1, 1, device=device))


class PackedPatches:
    """Patch product with normalised weights."""

    def __init__(self):
        self.version, self.packed = None, None

    def __call__(self, patches, weight):
        if self.version != weight._version:
            self.packed = (weight / weight.norm(dim=1, keepdim=True)).t().contiguous()
            self.version = weight._version
        return patches @ self.packed


def build_packed_patches(device):
    return PackedPatches(), (torch.randn(6, 27, device=device), torch.randn(8, 27, device=device))


class LearningPatches:
    def __init__(self, device):
        self.weight = torch.randn(8, 27, device=device)
        self.version, self.packed = None, None

    def __call__(self, patches):
        if self.version != self.weight._version:
            self.packed = (self.weight / self.weight.norm(dim=1, keepdim=True)).t().contiguous()
            self.version = self.weight._version
        out = patches @ self.packed
        self.weight.lerp_(torch.tanh(out.t() @ patches), 0.05)
        return out


def build_learning_patches(device):
    return LearningPatches(device), (torch.randn(6, 27, device=device) / 2,)


class LoggedClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 5))
        self.tally = None

    @torch.no_grad()
    def forward(self, images):
        logits = self.net(images)
        top = torch.softmax(logits, dim=-1).amax(dim=-1)
        self.tally.copy_(torch.stack([top.mean(), top.min(), logits.std()]), non_blocking=True)
        return logits, self.tally


def build_logged_classifier(device):
    model = LoggedClassifier().to(device).eval()
    model.tally = torch.zeros(3, pin_memory=device.type == "cuda")
    return model, (torch.randn(4, 3, 4, 4, device=device),)


class AveragedEvaluation:
    """Evaluate with averaged weights, then go on with the live ones."""

    def __init__(self, device):
        self.layer = nn.Linear(12, 5, device=device).requires_grad_(False)
        self.average = self.layer.weight.detach().clone()

    def __call__(self, x):
        weight = self.layer.weight
        live = weight.data
        weight.data = self.average
        scored = self.layer(x)
        weight.data = live
        trained = self.layer(x)
        live.add_(torch.tanh(trained).t() @ x, alpha=-0.01)
        self.average.lerp_(weight.data, 0.1)
        return scored, trained


def build_averaged_evaluation(device):
    return AveragedEvaluation(device), (torch.randn(6, 12, device=device),)
