"""Steps of timm, segmentation-models-pytorch, open_clip and lpips: training loops, and the code around models."""

import torch
import torch.nn.functional as F
from torch import nn


def images(device, batch=4, size=32):
    return torch.rand(batch, 3, size, size, device=device)


def labels(device, batch=4, classes=10):
    return torch.randint(0, classes, (batch,), device=device)


def classifier():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    )


def predicted(name, size=64, **options):
    def build(device):
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=10, **options).to(device).eval()

        @torch.no_grad()
        def step(x):
            return model(x)

        return step, (images(device, 2, size),)

    return build


vision_transformer = predicted("vit_tiny_patch16_224", img_size=64, embed_dim=48, depth=2)
shifted_windows = predicted(
    "swin_tiny_patch4_window7_224", img_size=64, window_size=4, depths=(1, 1, 1, 1), embed_dim=24
)
rotary_transformer = predicted("eva02_tiny_patch14_224", img_size=56, depth=2, size=56)
convolutional = predicted("convnext_atto")
anti_aliased = predicted("efficientnet_b0")


def mixed_training(device):
    """Images mixed and cut into each other, soft targets, gradients clipped as the parameters are large."""
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.utils import adaptive_clip_grad

    model = classifier().to(device)
    mix, criterion = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10), SoftTargetCrossEntropy()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, y):
        x, y = mix(x, y)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        adaptive_clip_grad(model.parameters(), clip_factor=0.01)
        optimizer.step()
        return loss.detach()

    return step, (images(device), labels(device))


def erased_training(device):
    """Random erasing on the device, smoothed labels, and a moving average of the weights."""
    from timm.data.random_erasing import RandomErasing
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3, accuracy

    model = classifier().to(device)
    average = ModelEmaV3(model, decay=0.99, use_warmup=True)
    erase, criterion = RandomErasing(probability=0.9, mode="pixel", device=str(device)), LabelSmoothingCrossEntropy(0.1)
    optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.05)
    steps = iter(range(1000))

    def step(x, y):
        scores = model(erase(x))
        loss = criterion(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model, step=next(steps))
        return loss.detach(), *accuracy(scores, y, topk=(1, 5))

    return step, (images(device), labels(device))


def trained(name, **options):
    """A small classifier under one of timm's optimizers."""

    def build(device):
        from timm.optim import create_optimizer_v2

        model = classifier().to(device)
        optimizer = create_optimizer_v2(model, opt=name, lr=1e-3, **options)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (images(device), labels(device))

    return build


factored_optimizer = trained("adafactor")
nesterov_moments = trained("adan")
lookahead_optimizer = trained("lookahead_radam")
parameter_wise = trained("lars")
nesterov_adam = trained("nadamw")
big_vision_factored = trained("adafactorbv")
projected = trained("adamp")
lion = trained("lion")


def logged_epoch(device):
    """A validation loop with running means of loss and accuracy, as timm's scripts keep them."""
    from timm.utils import AverageMeter, accuracy

    model = classifier().to(device).eval()
    losses, best = AverageMeter(), AverageMeter()

    @torch.no_grad()
    def step(x, y):
        scores = model(x)
        loss = F.cross_entropy(scores, y)
        top, _ = accuracy(scores, y, topk=(1, 5))
        losses.update(loss.item(), x.size(0))
        best.update(top.item(), x.size(0))
        return loss

    return step, (images(device), labels(device))


def segmented_training(device):
    """A U-Net trained by overlap and by hard pixels, with its scores."""
    import segmentation_models_pytorch as smp

    model = smp.Unet("resnet18", encoder_weights=None, in_channels=3, classes=3).to(device)
    dice, focal = smp.losses.DiceLoss("multiclass"), smp.losses.FocalLoss("multiclass", ignore_index=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x, mask):
        scores = model(x)
        loss = dice(scores, mask) + focal(scores, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tp, fp, fn, tn = smp.metrics.get_stats(scores.argmax(1), mask, mode="multiclass", num_classes=3)
        return loss.detach(), smp.metrics.iou_score(tp, fp, fn, tn, reduction="micro")

    return step, (images(device, 2, 64), torch.randint(0, 3, (2, 64, 64), device=device))


def binary_masks(device):
    """Losses and scores for one class against its background."""
    import segmentation_models_pytorch as smp

    head = nn.Conv2d(3, 1, 3, padding=1).to(device)
    criteria = [
        smp.losses.JaccardLoss("binary"),
        smp.losses.TverskyLoss("binary", alpha=0.3, beta=0.7),
        smp.losses.LovaszLoss("binary"),
        smp.losses.SoftBCEWithLogitsLoss(smooth_factor=0.1),
        smp.losses.MCCLoss(),
    ]

    def step(x, mask):
        scores = head(x)
        loss = sum(one(scores, mask) for one in criteria)
        loss.backward()
        counts = smp.metrics.get_stats(scores.sigmoid(), mask.long(), mode="binary", threshold=0.5)
        scores = [
            smp.metrics.f1_score(*counts, reduction="macro"),
            smp.metrics.recall(*counts, reduction="micro-imagewise"),
        ]
        return loss.detach(), *scores

    return step, (images(device), (torch.rand(4, 1, 32, 32, device=device) > 0.7).float())


def contrastive_pairs(device):
    """A CLIP model of one layer trained on pairs of images and texts."""
    from open_clip import ClipLoss
    from open_clip.model import CLIP

    model = CLIP(
        embed_dim=32,
        vision_cfg={"image_size": 32, "layers": 1, "width": 64, "patch_size": 8, "head_width": 32},
        text_cfg={"context_length": 12, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1},
    ).to(device)
    criterion, optimizer = ClipLoss(), torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(x, texts):
        image, text, scale = model(x, texts)
        losses = criterion(image, text, scale, output_dict=True)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        return total.detach()

    return step, (images(device), torch.randint(1, 64, (4, 12), device=device))


def captions(device):
    """A model that writes captions, trained on them and on which image they belong to."""
    from open_clip import CoCaLoss
    from open_clip.coca_model import CoCa

    layers = {"width": 32, "heads": 2, "layers": 1}
    words = {"context_length": 12, "vocab_size": 64, **layers}
    model = CoCa(
        embed_dim=32,
        multimodal_cfg=words,
        text_cfg={**words, "embed_cls": True, "output_tokens": True},
        vision_cfg={
            **{"image_size": 32, "layers": 1, "width": 64, "patch_size": 8, "head_width": 32},
            **{"attentional_pool": True, "output_tokens": True, "attn_pooler_heads": 2},
        },
    ).to(device)
    criterion = CoCaLoss(caption_loss_weight=2.0, clip_loss_weight=1.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(x, texts):
        losses = criterion(**model(x, texts), output_dict=True)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total.detach()

    return step, (images(device, 2), torch.randint(1, 64, (2, 12), device=device))


def perceptual_distance(device):
    from lpips import LPIPS

    distance = LPIPS(net="squeeze", pnet_rand=True, verbose=False).to(device).eval()

    @torch.no_grad()
    def step(one, other):
        return distance(one, other, normalize=True)

    return step, (images(device, size=64), images(device, size=64))
