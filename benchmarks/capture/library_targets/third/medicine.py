"""Steps of MONAI: networks, losses, metrics, sliding windows and transforms on volumes of the device."""

import torch
from torch import nn


def volumes(device, batch=2, size=16, channels=1):
    return torch.rand(batch, channels, size, size, size, device=device)


def one_hot(device, batch=2, classes=3, size=16):
    from monai.networks import one_hot

    return one_hot(torch.randint(0, classes, (batch, 1, size, size, size), device=device), classes)


def volume_training(device):
    """A U-Net of volumes trained by overlap and cross entropy."""
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(3, 1, 3, channels=(4, 8), strides=(2,), num_res_units=1).to(device)
    criterion = DiceCELoss(to_onehot_y=True, softmax=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, mask):
        optimizer.zero_grad()
        loss = criterion(model(x), mask)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (volumes(device), torch.randint(0, 3, (2, 1, 16, 16, 16), device=device))


def other_losses(device):
    from monai import losses

    head = nn.Conv3d(1, 3, 3, padding=1).to(device)
    criteria = [
        losses.FocalLoss(use_softmax=True),
        losses.TverskyLoss(softmax=True),
        losses.GeneralizedDiceLoss(softmax=True),
        losses.HausdorffDTLoss(softmax=True),
    ]

    def step(x, mask):
        scores = head(x)
        loss = sum(one(scores, mask) for one in criteria)
        loss.backward()
        return loss.detach()

    return step, (volumes(device, size=8), one_hot(device, size=8))


def overlap_scores(device):
    """Metrics of a validation loop, gathered and then read."""
    from monai.metrics import ConfusionMatrixMetric, DiceMetric, GeneralizedDiceScore, MeanIoU

    metrics = [
        DiceMetric(include_background=False, reduction="mean_batch"),
        MeanIoU(),
        GeneralizedDiceScore(),
        ConfusionMatrixMetric(metric_name=["sensitivity", "precision"]),
    ]

    @torch.no_grad()
    def step(predicted, mask):
        results = []
        for metric in metrics:
            metric(predicted, mask)
            results.append(metric.aggregate())
            metric.reset()
        return results

    return step, (one_hot(device), one_hot(device))


def surface_scores(device):
    """Distances between the surfaces of two masks."""
    from monai.metrics import HausdorffDistanceMetric, SurfaceDistanceMetric

    hausdorff = HausdorffDistanceMetric(include_background=False, percentile=95)
    surface = SurfaceDistanceMetric(include_background=False)

    @torch.no_grad()
    def step(predicted, mask):
        hausdorff(predicted, mask)
        surface(predicted, mask)
        found = hausdorff.aggregate(), surface.aggregate()
        hausdorff.reset()
        surface.reset()
        return found

    return step, (one_hot(device, size=8), one_hot(device, size=8))


def ranking_scores(device):
    from monai.metrics import ROCAUCMetric, compute_average_precision, compute_roc_auc

    metric = ROCAUCMetric()

    @torch.no_grad()
    def step(scores, truth):
        metric(scores, truth)
        found = metric.aggregate()
        metric.reset()
        return found, compute_roc_auc(scores, truth, average="macro"), compute_average_precision(scores, truth)

    return step, (torch.rand(16, 2, device=device), torch.eye(2, device=device)[torch.arange(16) % 2])


def restored_scores(device):
    from monai.metrics import MAEMetric, PSNRMetric, SSIMMetric

    metrics = [MAEMetric(), PSNRMetric(max_val=1.0), SSIMMetric(spatial_dims=3, win_size=5)]

    @torch.no_grad()
    def step(one, other):
        for metric in metrics:
            metric(one, other)
        return [metric.aggregate() for metric in metrics]

    return step, (volumes(device), volumes(device))


def sliding_windows(device):
    """A volume that is larger than what the model takes."""
    from monai.inferers import SlidingWindowInferer, sliding_window_inference

    model = nn.Conv3d(1, 2, 3, padding=1).to(device).eval()
    gaussian = SlidingWindowInferer(roi_size=(8, 8, 8), sw_batch_size=4, overlap=0.5, mode="gaussian")

    @torch.no_grad()
    def step(x):
        return gaussian(x, model), sliding_window_inference(x, (8, 8, 8), 2, model, overlap=0.25)

    return step, (volumes(device),)


def augmented_volume(device):
    """Random changes of one volume on the device."""
    from monai import transforms

    change = transforms.Compose(
        [
            transforms.NormalizeIntensity(nonzero=True),
            transforms.RandFlip(prob=0.5, spatial_axis=0),
            transforms.RandGaussianNoise(prob=0.9, std=0.1),
            transforms.RandAffine(prob=0.9, rotate_range=0.2, scale_range=0.1, padding_mode="zeros", device=device),
            transforms.RandScaleIntensity(0.1, prob=0.9),
            transforms.RandGaussianSmooth(prob=0.9),
            transforms.RandAdjustContrast(prob=0.9),
            transforms.ScaleIntensityRangePercentiles(1, 99, 0.0, 1.0, clip=True),
        ]
    )

    @torch.no_grad()
    def step(x):
        return change(x)

    return step, (volumes(device)[0],)


def cleaned_prediction(device):
    """Runs the transforms between a segmentation and its score."""
    from monai import transforms

    clean = transforms.Compose(
        [
            transforms.Activations(softmax=True),
            transforms.AsDiscrete(argmax=True, to_onehot=3),
            transforms.FillHoles(applied_labels=[1]),
            transforms.KeepLargestConnectedComponent(applied_labels=[1, 2]),
        ]
    )

    @torch.no_grad()
    def step(x):
        return clean(x)

    return step, (torch.randn(3, 12, 12, 12, device=device),)


def diffused_volume(device):
    """Training of a latent diffusion model, and one turn of its sampler."""
    from monai.inferers import DiffusionInferer
    from monai.networks.nets import DiffusionModelUNet
    from monai.networks.schedulers import DDIMScheduler

    model = DiffusionModelUNet(
        spatial_dims=2,
        in_channels=1,
        out_channels=1,
        channels=(8, 16),
        attention_levels=(False, True),
        num_res_blocks=1,
        num_head_channels=8,
        norm_num_groups=4,
    ).to(device)
    scheduler = DDIMScheduler(num_train_timesteps=100)
    inferer, optimizer = DiffusionInferer(scheduler), torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        noise = torch.randn_like(x)
        times = torch.randint(0, 100, (x.shape[0],), device=x.device).long()
        optimizer.zero_grad()
        loss = (inferer(inputs=x, diffusion_model=model, noise=noise, timesteps=times) - noise).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(2, 1, 16, 16, device=device),)


def diffusion_turns(device):
    from monai.inferers import DiffusionInferer
    from monai.networks.schedulers import DDPMScheduler

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Conv2d(1, 1, 3, padding=1)

        def forward(self, x, timesteps, context=None):
            return self.net(x) * (timesteps.float() / 100).reshape(-1, 1, 1, 1)

    model, scheduler = Denoiser().to(device), DDPMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(4)
    inferer = DiffusionInferer(scheduler)

    @torch.no_grad()
    def step(noise):
        return inferer.sample(input_noise=noise, diffusion_model=model, scheduler=scheduler, verbose=False)

    return step, (torch.randn(2, 1, 16, 16, device=device),)


def boxes_of_lesions(device):
    """Boxes of a detector, compared and thinned out."""
    from monai.data.box_utils import box_iou, clip_boxes_to_image, non_max_suppression

    @torch.no_grad()
    def step(boxes, scores):
        boxes, kept = clip_boxes_to_image(boxes, (32, 32, 32))
        scores = scores[kept]
        return box_iou(boxes, boxes), non_max_suppression(boxes, scores, 0.3)

    corner = torch.rand(16, 3, device=device) * 20
    return step, (
        torch.cat([corner, corner + 4 + torch.rand(16, 3, device=device) * 6], 1),
        torch.rand(16, device=device),
    )
