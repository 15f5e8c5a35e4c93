"""Steps of vit_pytorch: classifying, masked pretraining, distilling, pictures of several sizes, adaptive tokens."""

import torch
from torch import nn


def pictures(where, size=32):
    return torch.rand(4, 3, size, size, device=where), torch.randint(0, 4, (4,), device=where)


SIZES = {"image_size": 32, "patch_size": 8, "num_classes": 4, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}


def classified(module, name="ViT", pair=False, **options):
    def build(device):
        import importlib

        model = getattr(importlib.import_module(f"vit_pytorch.{module}"), name)(**options).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(x, y):
            out = model(x)
            loss = nn.functional.cross_entropy(out[0] if isinstance(out, tuple) else out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, pictures(device)

    return build


patches_training = classified("vit", **SIZES, dropout=0.1, emb_dropout=0.1, pool="mean")
dropped_patches_training = classified("vit_with_patch_dropout", **SIZES, patch_dropout=0.25)
adaptive_tokens_training = classified("ats_vit", **SIZES, max_tokens_per_depth=(8, 4))
compact_training = classified(
    "cct",
    "CCT",
    img_size=32,
    embedding_dim=32,
    n_conv_layers=1,
    kernel_size=3,
    stride=2,
    padding=1,
    num_layers=2,
    num_heads=2,
    mlp_ratio=2.0,
    num_classes=4,
    stochastic_depth_rate=0.2,
)


def memory_adapter_training(device):
    """A frozen network and an adapter with learnt memories."""
    from vit_pytorch.learnable_memory_vit import Adapter, ViT

    model = Adapter(vit=ViT(**SIZES), num_classes=4, num_memories_per_layer=3).to(device)

    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    return step, pictures(device)


def recorded_attention(device):
    from vit_pytorch.extractor import Extractor
    from vit_pytorch.recorder import Recorder
    from vit_pytorch.vit import ViT

    recorder, extractor = (
        Recorder(ViT(**SIZES).to(device)),
        Extractor(ViT(**SIZES).to(device), return_embeddings_only=True),
    )

    @torch.no_grad()
    def step(x):
        return recorder(x), extractor(x)

    return step, pictures(device)[:1]


looking_twice_training = classified(
    "look_vit",
    "LookViT",
    image_size=32,
    num_classes=4,
    dim=32,
    depth=1,
    patch_size=16,
    heads=2,
    highres_patch_size=8,
    cross_attn_heads=2,
)


def position_prediction(device):
    from vit_pytorch.mp3 import MP3, ViT

    model = MP3(
        vit=ViT(num_classes=4, image_size=32, patch_size=8, dim=32, depth=2, heads=2, mlp_dim=64), masking_ratio=0.75
    ).to(device)

    def step(x):
        loss = model(x)
        loss.backward()
        return loss.detach()

    return step, pictures(device)[:1]


def distilled_student(device):
    from vit_pytorch.distill import DistillableViT, DistillWrapper

    teacher = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    model = DistillWrapper(student=DistillableViT(**SIZES), teacher=teacher, temperature=3, alpha=0.5, hard=True).to(
        device
    )

    def step(x, y):
        loss = model(x, y)
        loss.backward()
        return loss.detach()

    return step, pictures(device)


def packed_sizes(device):
    """Pictures of several sizes, packed."""
    from vit_pytorch.na_vit import NaViT

    model = NaViT(**{**SIZES, "image_size": 64}, token_dropout_prob=0.1, dropout=0.1).to(device)

    def step(images):
        loss = model(images, group_images=True, group_max_seq_len=32).logsumexp(-1).mean()
        loss.backward()
        return loss.detach()

    return step, ([torch.rand(3, *size, device=device) for size in ((32, 32), (16, 48), (24, 24), (64, 32))],)


def self_distillation(device):
    """DINO with a moving average of the student."""
    from vit_pytorch import Dino, ViT

    blur = nn.Identity()
    model = Dino(
        ViT(**SIZES),
        image_size=32,
        hidden_layer="to_latent",
        projection_hidden_size=32,
        projection_layers=2,
        num_classes_K=64,
        augment_fn=blur,
        augment_fn2=blur,
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update_moving_average()
        return loss.detach()

    return step, pictures(device)[:1]
