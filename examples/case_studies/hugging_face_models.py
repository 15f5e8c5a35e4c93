"""Models of transformers 5.23.0 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

Target = tuple[Any, tuple[Any, ...]]


def dynamic_rope(device: torch.device) -> Target:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    config = LlamaConfig(hidden_size=16, num_attention_heads=2, max_position_embeddings=16, rope_parameters=rope)
    positions = torch.randint(0, 24, (1, 6), device=device)
    return LlamaRotaryEmbedding(config).to(device), (torch.randn(1, 6, 8, device=device), positions)


def dynamic_rope_repaired(device: torch.device) -> Target:
    powers = torch.arange(0, 8, 2, device=device).float() / 8

    def step(x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        length = (positions.max() + 1).clamp(min=16)  # below 16 the base stays as it is
        base = 10000 * (2 * length / 16 - 1) ** (8 / 6)
        angles = (positions[..., None].float() / base**powers).repeat(1, 1, 2)
        return angles.cos(), angles.sin()

    return step, dynamic_rope(device)[1]


def _decode(device: torch.device, *, static: bool) -> Target:
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 64}
    config = LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)
    model = LlamaForCausalLM(config).to(device).eval().requires_grad_(False)
    cache = StaticCache(config=config, max_cache_len=256) if static else DynamicCache(config=config)

    def step(token: Tensor) -> Tensor:
        return model(token, past_key_values=cache).logits

    step(torch.randint(3, 64, (2, 4), device=device))  # the prompt
    return step, (torch.randint(3, 64, (2, 1), device=device),)


def growing_cache(device: torch.device) -> Target:
    return _decode(device, static=False)


def growing_cache_repaired(device: torch.device) -> Target:
    return _decode(device, static=True)


def _longformer(device: torch.device) -> Any:
    from transformers import LongformerConfig, LongformerModel

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 64}
    config = LongformerConfig(**sizes, num_attention_heads=2, attention_window=4, max_position_embeddings=32)
    return LongformerModel(config, add_pooling_layer=False).to(device).eval().requires_grad_(False)


def longformer(device: torch.device) -> Target:
    model = _longformer(device)
    return lambda ids: model(ids).last_hidden_state, (torch.randint(3, 64, (2, 8), device=device),)


def longformer_repaired(device: torch.device) -> Target:
    from transformers.models.longformer.modeling_longformer import LongformerBaseModelOutput

    class LocalEncoder(nn.Module):
        """No token has global attention, since no mask for it was passed. So the host need not read this."""

        def __init__(self, layers: nn.ModuleList) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, hidden: Tensor, attention_mask: Tensor, padding_len: int, **_: Any) -> Any:
            masked, everywhere = attention_mask < 0, attention_mask > 0
            for layer in self.layers:
                (hidden,) = layer(hidden, attention_mask, masked, everywhere, is_global_attn=False)
            return LongformerBaseModelOutput(hidden[:, : hidden.size(1) - padding_len])

    model = _longformer(device)
    model.encoder = LocalEncoder(model.encoder.layer)
    return lambda ids: model(ids).last_hidden_state, (torch.randint(3, 64, (2, 8), device=device),)


def _jet(device: torch.device) -> Any:
    from transformers import JetMoeConfig
    from transformers.models.jetmoe.modeling_jetmoe import JetMoeMoE

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2}
    layer = JetMoeMoE(JetMoeConfig(**sizes))
    for weights in layer.parameters():
        nn.init.normal_(weights, std=0.1)
    return layer.to(device).requires_grad_(False)


def jet_experts(device: torch.device) -> Target:
    return _jet(device), (torch.randn(2, 5, 16, device=device),)


def jet_experts_repaired(device: torch.device) -> Target:
    layer = _jet(device)

    def step(x: Tensor) -> Tensor:
        flat = x.view(-1, 16)
        chance, chosen = layer.router.layer(flat).topk(2, dim=1)
        weights = torch.zeros_like(flat[:, :4]).scatter_(1, chosen, chance.softmax(1))
        gate, up = torch.einsum("th,eoh->teo", flat, layer.input_linear.weight).chunk(2, -1)
        each = torch.einsum("teo,eho->teh", layer.activation(gate) * up, layer.output_linear.weight)
        return torch.einsum("te,teh->th", weights, each).view_as(x) + layer.bias

    return step, (torch.randn(2, 5, 16, device=device),)


def _vision(device: torch.device) -> tuple[Any, Tensor, tuple[Tensor, Tensor]]:
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import VisionAttention

    config = Qwen2VLVisionConfig(embed_dim=16, num_heads=2, attn_implementation="sdpa")
    layer = VisionAttention(config).to(device).requires_grad_(False)
    angles = torch.rand(10, 8, device=device)
    return layer, torch.tensor([0, 6, 10], dtype=torch.int32, device=device), (angles.cos(), angles.sin())


def vision_attention(device: torch.device) -> Target:
    layer, bounds, rotation = _vision(device)  # two images, of six and of four patches
    return lambda x: layer(x, bounds, position_embeddings=rotation), (torch.randn(10, 16, device=device),)


def vision_attention_repaired(device: torch.device) -> Target:
    from transformers.models.qwen2_vl.modeling_qwen2_vl import apply_rotary_pos_emb_vision

    layer, bounds, rotation = _vision(device)

    def step(x: Tensor) -> Tensor:
        image = torch.bucketize(torch.arange(10, device=x.device), bounds, right=True)
        query, key, value = layer.qkv(x).view(10, 3, 2, 8).unbind(1)
        query, key = apply_rotary_pos_emb_vision(query, key, *rotation)
        heads = (part.transpose(0, 1)[None] for part in (query, key, value))
        mixed = nn.functional.scaled_dot_product_attention(*heads, attn_mask=image[:, None] == image)
        return layer.proj(mixed[0].transpose(0, 1).reshape(10, 16))

    return step, (torch.randn(10, 16, device=device),)
