"""Steps of kornia: augmentation, filters, geometry, features, losses and metrics on images of the device."""

import torch
import torch.nn.functional as F
from torch import nn


def images(device, batch=4, size=32, channels=3):
    return torch.rand(batch, channels, size, size, device=device)


def augmentation(device):
    """Random changes of images, the same for their masks."""
    import kornia.augmentation as augment

    pipeline = augment.AugmentationSequential(
        augment.RandomHorizontalFlip(p=0.5),
        augment.RandomAffine(degrees=15.0, translate=(0.1, 0.1), p=0.8),
        augment.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=0.8),
        augment.RandomGaussianBlur((3, 3), (0.1, 2.0), p=0.5),
        augment.RandomErasing(p=0.5),
        data_keys=["input", "mask"],
    ).to(device)

    @torch.no_grad()
    def step(x, mask):
        return pipeline(x, mask)

    return step, (images(device), (images(device, channels=1) > 0.5).float())


def mixed_training(device):
    """Mixes images and their labels before a classifier sees them."""
    import kornia.augmentation as augment

    mix = augment.RandomMixUpV2(data_keys=["input", "class"], p=1.0).to(device)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x, labels):
        mixed, targets = mix(x, labels)
        scores = model(mixed)
        one = F.cross_entropy(scores, targets[:, 0].long(), reduction="none")
        other = F.cross_entropy(scores, targets[:, 1].long(), reduction="none")
        loss = ((1 - targets[:, 2]) * one + targets[:, 2] * other).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (images(device), torch.randint(0, 5, (4,), device=device))


def edges(device):
    from kornia.filters import canny, median_blur, sobel, unsharp_mask

    @torch.no_grad()
    def step(x):
        magnitude, outline = canny(median_blur(x, (3, 3)))
        return magnitude, outline, sobel(unsharp_mask(x, (3, 3), (1.5, 1.5)))

    return step, (images(device),)


def contrast(device):
    from kornia.color import lab_to_rgb, rgb_to_lab
    from kornia.enhance import adjust_gamma, equalize_clahe

    @torch.no_grad()
    def step(x):
        lab = rgb_to_lab(equalize_clahe(x, grid_size=(4, 4)))
        return adjust_gamma(lab_to_rgb(lab), 0.8)

    return step, (images(device),)


def rectified(device):
    """A homography from points, and the image as it shows it."""
    from kornia.geometry.homography import find_homography_dlt
    from kornia.geometry.transform import warp_perspective

    @torch.no_grad()
    def step(x, here, there, weights):
        return warp_perspective(x, find_homography_dlt(here, there, weights), (32, 32))

    here = torch.rand(4, 12, 2, device=device) * 31
    return step, (images(device), here, here + torch.rand_like(here), torch.rand(4, 12, device=device))


def robust_homography(device):
    """Matches of descriptors, and the homography that most of them agree with."""
    from kornia.feature import match_smnn
    from kornia.geometry.ransac import RANSAC

    estimate = RANSAC("homography", inl_th=2.0, max_iter=3, batch_size=128)

    @torch.no_grad()
    def step(one, other, here, there):
        _, pairs = match_smnn(one, other, 0.95)
        return estimate(here[pairs[:, 0]], there[pairs[:, 1]])[0]

    one, here = torch.rand(40, 16, device=device), torch.rand(40, 2, device=device) * 100
    return step, (one, one + 0.01 * torch.rand_like(one), here, here + 3.0)


def corners(device):
    """Local features of an image: where, how large, and a descriptor each."""
    from kornia.feature import BlobHessian, LAFDescriptor, LAFOrienter, LocalFeature, ScaleSpaceDetector, SIFTDescriptor
    from kornia.geometry.transform import ScalePyramid

    detector = ScaleSpaceDetector(
        32, resp_module=BlobHessian(), scale_pyr_module=ScalePyramid(3, 1.6, 16), ori_module=LAFOrienter(19)
    )
    model = LocalFeature(detector, LAFDescriptor(SIFTDescriptor(16), patch_size=16)).to(device).eval()

    @torch.no_grad()
    def step(x):
        return model(x)

    return step, (images(device, 1, 64, 1),)


def segmentation_training(device):
    from kornia.losses import dice_loss, focal_loss, lovasz_softmax_loss
    from kornia.metrics import mean_iou

    model = nn.Conv2d(3, 4, 3, padding=1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, labels):
        scores = model(x)
        loss = dice_loss(scores, labels) + focal_loss(scores, labels, alpha=0.5, gamma=2.0, reduction="mean")
        loss = loss + lovasz_softmax_loss(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), mean_iou(scores.argmax(1), labels, 4)

    return step, (images(device), torch.randint(0, 4, (4, 32, 32), device=device))


def poses(device):
    """Rotations in several forms, and points that a camera sees."""
    from kornia.geometry.camera import PinholeCamera
    from kornia.geometry.conversions import (
        axis_angle_to_rotation_matrix,
        quaternion_to_rotation_matrix,
        rotation_matrix_to_quaternion,
    )

    intrinsics, extrinsics = torch.eye(4, device=device).repeat(2, 1, 1), torch.eye(4, device=device).repeat(2, 1, 1)
    size = torch.full((2,), 32.0, device=device)

    @torch.no_grad()
    def step(turns, points):
        turned = quaternion_to_rotation_matrix(rotation_matrix_to_quaternion(axis_angle_to_rotation_matrix(turns)))
        placed = extrinsics.clone()
        placed[:, :3, :3] = turned
        camera = PinholeCamera(intrinsics, placed, size, size)
        return camera.project(points)

    return step, (torch.randn(2, 3, device=device), torch.rand(2, 5, 3, device=device) + 2)
