"""Training steps of codebooks by vector-quantize-pytorch."""

import torch
from torch import nn


def autoencoder(kind, **options):
    """A small autoencoder around a quantizer, trained on what it restores and on the quantizer's own loss."""

    def build(device):
        import vector_quantize_pytorch as quantizers

        width = options.get("dim", 16)
        encode, decode = nn.Linear(8, width).to(device), nn.Linear(width, 8).to(device)
        quantize = getattr(quantizers, kind)(**options).to(device).train()
        optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters(), *quantize.parameters()], lr=1e-3)

        def step(x):
            quantized, _, *losses = quantize(encode(x))
            loss = (decode(quantized) - x).square().mean() + sum(one.mean() for one in losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randn(4, 32, 8, device=device),)

    return build


averaged_codes = autoencoder("VectorQuantize", dim=16, codebook_size=32, decay=0.9, threshold_ema_dead_code=2)
clustered_codes = autoencoder("VectorQuantize", dim=16, codebook_size=32, kmeans_init=True, use_cosine_sim=True)
learnt_codes = autoencoder(
    "VectorQuantize", dim=16, codebook_size=32, learnable_codebook=True, ema_update=False, rotation_trick=True
)
residual_codes = autoencoder(
    "ResidualVQ", dim=16, num_quantizers=4, codebook_size=32, quantize_dropout=True, stochastic_sample_codes=True
)
finite_scalars = autoencoder("FSQ", levels=[8, 5, 5], dim=16)
binary_codes = autoencoder("LFQ", codebook_size=64, dim=16, entropy_loss_weight=0.1)
frozen_codes = autoencoder("SimVQ", dim=16, codebook_size=32)


def latent_codes(device):
    """Codes for the places of an image's features."""
    from vector_quantize_pytorch import LatentQuantize

    encode, decode = nn.Conv2d(3, 16, 3, padding=1).to(device), nn.Conv2d(16, 3, 3, padding=1).to(device)
    quantize = LatentQuantize(levels=[5, 5, 8], dim=16).to(device).train()
    optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters(), *quantize.parameters()], lr=1e-3)

    def step(images):
        quantized, _, loss = quantize(encode(images))
        loss = loss + (decode(quantized) - images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.rand(2, 3, 8, 8, device=device),)


def targets_of_speech(device):
    """Labels for masked prediction, by a projection that is never trained."""
    from vector_quantize_pytorch import RandomProjectionQuantizer

    quantize = RandomProjectionQuantizer(dim=16, num_codebooks=2, codebook_dim=8, codebook_size=32).to(device)

    @torch.no_grad()
    def step(x):
        return quantize(x)

    return step, (torch.randn(4, 32, 16, device=device),)
