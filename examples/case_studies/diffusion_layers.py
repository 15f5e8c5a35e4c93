"""Layers of diffusers 0.42.1 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

Target = tuple[Any, tuple[Any, ...]]


def _experts(device: torch.device) -> nn.Module:
    from diffusers.models.transformers.transformer_hidream_image import MOEFeedForwardSwiGLU

    experts = MOEFeedForwardSwiGLU(16, 32, num_routed_experts=4, num_activated_experts=2)
    return experts.to(device).eval().requires_grad_(False)


def hidream_experts(device: torch.device) -> Target:
    return _experts(device), (torch.randn(2, 5, 16, device=device),)


def hidream_experts_repaired(device: torch.device) -> Target:
    layer = _experts(device)

    def step(x: Tensor) -> Tensor:
        chosen, weight, _ = layer.gate(x)
        flat = x.view(-1, 16)
        weights = torch.zeros_like(flat[:, :4]).scatter_(1, chosen, weight)  # zero for experts that were not chosen
        routed = sum(weights[:, i, None] * expert(flat) for i, expert in enumerate(layer.experts))
        return routed.view_as(x) + layer.shared_experts(x)

    return step, (torch.randn(2, 5, 16, device=device),)


def fir_upsample(device: torch.device) -> Target:
    from diffusers.models.upsampling import FirUpsample2D

    return FirUpsample2D(4), (torch.randn(2, 4, 8, 8, device=device),)


def fir_upsample_repaired(device: torch.device) -> Target:
    from diffusers.models.upsampling import upfirdn2d_native

    line = torch.tensor([1.0, 3.0, 3.0, 1.0], device=device)
    kernel = torch.outer(line, line) / 64 * 2**2  # once, as a buffer of the layer would be
    return lambda x: upfirdn2d_native(x, kernel, up=2, pad=(2, 1)), fir_upsample(device)[1]


def time_embedding(device: torch.device) -> Target:
    from diffusers.models.transformers.transformer_kandinsky import Kandinsky5TimeEmbeddings

    layer = Kandinsky5TimeEmbeddings(16, 8).to(device).requires_grad_(False)
    return layer, (torch.rand(2, device=device) * 1000,)


def time_embedding_repaired(device: torch.device) -> Target:
    layer, args = time_embedding(device)
    frequencies = layer.freqs
    del layer.freqs
    layer.register_buffer("freqs", frequencies.to(device), persistent=False)  # `.to(device)` then does nothing
    return layer, args


def rotary_scaling(device: torch.device) -> Target:
    from diffusers.models.transformers.transformer_omnigen import OmniGenSuScaledRotaryEmbedding

    factors = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 2.5, 3.0, 3.5]}
    layer = OmniGenSuScaledRotaryEmbedding(8, 32, original_max_position_embeddings=16, rope_scaling=factors)
    return layer.to(device), (torch.randn(2, 6, 8, device=device), torch.randint(0, 20, (2, 6), device=device))


def rotary_scaling_repaired(device: torch.device) -> Target:
    layer, args = rotary_scaling(device)
    powers = 10000 ** (torch.arange(0, 8, 2, device=device).float() / 8)
    short, long = (1 / (torch.tensor(f, device=device) * powers) for f in (layer.short_factor, layer.long_factor))
    scale = (1 + torch.tensor(2.0).log().item() / torch.tensor(16.0).log().item()) ** 0.5

    def step(x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        frequencies = torch.where(positions.max() >= 16, long, short)
        angles = (positions[0, :, None].float() * frequencies).repeat(1, 2)
        return angles.cos() * scale, angles.sin() * scale

    return step, args
