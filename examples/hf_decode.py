"""A decode step of transformers models, with small configurations, random weights and a StaticCache with a prompt.

This needs transformers 5.17. The steps of `llama`, `gpt2`, `mixtral` and `qwen3_moe` can be captured as one CUDA graph;
the step of `opt` cannot. The weights are bfloat16, as in production. In float32, the grouped matrix product of the two
mixture-of-experts models would wait for the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel, StaticCache

VOCABULARY = 256
PROMPT = 8


class DecodeStep(nn.Module):
    """A model with its cache. It takes `token` [batch, 1] and returns the next logits [batch, 1, vocabulary]."""

    def __init__(self, model: PreTrainedModel, cache: StaticCache) -> None:
        super().__init__()
        self.model = model
        self.cache = cache

    def forward(self, token: Tensor) -> Tensor:
        return self.model(input_ids=token, past_key_values=self.cache, use_cache=True).logits


def _decode_step(
    device: torch.device, model_type: str, batch: int, length: int, **sizes: Any
) -> tuple[nn.Module, tuple[Tensor]]:
    from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = AutoConfig.for_model(model_type, vocab_size=VOCABULARY, **special, **sizes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).to(device).eval().requires_grad_(False)
    step = DecodeStep(model, StaticCache(config=config, max_cache_len=length))
    step(torch.randint(3, VOCABULARY, (batch, PROMPT), device=device))
    return step, (torch.randint(3, VOCABULARY, (batch, 1), device=device),)


def llama(device: torch.device, *, batch: int = 2, length: int = 256) -> tuple[nn.Module, tuple[Tensor]]:
    """`length` is the size of the cache in tokens, here and in the functions below. The prompt takes eight of them."""
    return _decode_step(
        device,
        "llama",
        batch,
        length,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )


def gpt2(device: torch.device, *, batch: int = 2, length: int = 256) -> tuple[nn.Module, tuple[Tensor]]:
    return _decode_step(device, "gpt2", batch, length, n_embd=64, n_layer=2, n_head=4, n_positions=1024)


def mixtral(device: torch.device, *, batch: int = 2, length: int = 256) -> tuple[nn.Module, tuple[Tensor]]:
    return _decode_step(
        device,
        "mixtral",
        batch,
        length,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
    )


def qwen3_moe(device: torch.device, *, batch: int = 2, length: int = 256) -> tuple[nn.Module, tuple[Tensor]]:
    return _decode_step(
        device,
        "qwen3_moe",
        batch,
        length,
        hidden_size=64,
        intermediate_size=128,
        moe_intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
    )


def opt(device: torch.device, *, batch: int = 2, length: int = 256) -> tuple[nn.Module, tuple[Tensor]]:
    """OPT computes its mask and positions from the cache's length, a device tensor that each step reads back."""
    return _decode_step(
        device,
        "opt",
        batch,
        length,
        hidden_size=64,
        ffn_dim=128,
        word_embed_proj_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=1024,
    )
