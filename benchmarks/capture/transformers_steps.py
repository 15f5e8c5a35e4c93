"""Steps of tiny transformers models, as targets: `transformers_steps.py:llama__decode__bfloat16`.

There is a factory for each model type of tiny_models.py, each step (`forward` or `decode`) and each dtype. A forward
step reads sixteen tokens of each of two sequences. A decode step reads one token of each sequence, with a StaticCache
that holds a prompt of eight tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tiny_models import build
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache  # noqa: F401  the models, once for all targets

ROOM = 128
"The number of tokens in a cache."


class ForwardStep(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @torch.no_grad()
    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids).logits


class DecodeStep(nn.Module):
    """A decode step. Some models make a mask that is narrower than a static cache, so they get a mask of the cache's
    width."""

    def __init__(self, model: Any, prompt: Tensor) -> None:
        super().__init__()
        self.model = model
        try:
            self.start({}, prompt)
        except RuntimeError:
            mask = torch.ones(prompt.shape[0], ROOM, dtype=torch.long, device=prompt.device)
            self.start({"attention_mask": mask}, prompt)

    def start(self, mask: dict[str, Tensor], prompt: Tensor) -> None:
        self.mask = mask
        self.cache = StaticCache(config=self.model.config, max_cache_len=ROOM)
        self(prompt)

    @torch.no_grad()
    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids, past_key_values=self.cache, use_cache=True, **self.mask).logits


class _Everyone(dict[str, Any]):
    """A dict that gives the same function for every name."""

    def get(self, name: str, default: Any = None) -> Any:
        return other_tokens


def other_tokens(args: tuple[Tensor], kwargs: dict[str, Tensor], k: int) -> None:
    draw = torch.Generator().manual_seed(k)
    args[0].copy_(torch.randint(3, 100, args[0].shape, generator=draw))


CHANGE = _Everyone()
"The oracle changes inputs with these functions. Without them, it would take two different tokens for positions."


def __getattr__(name: str) -> Callable[[torch.device], tuple[nn.Module, tuple[Tensor]]]:
    model_type, _, rest = name.partition("__")
    kind, _, dtype = rest.partition("__")
    if kind not in ("forward", "decode") or dtype not in ("float32", "bfloat16"):
        raise AttributeError(name)

    def factory(device: torch.device) -> tuple[nn.Module, tuple[Tensor]]:
        model = build(model_type, device).to(getattr(torch, dtype)).requires_grad_(False)
        torch.manual_seed(0)
        if kind == "forward":
            return ForwardStep(model), (torch.randint(3, 100, (2, 16), device=device),)
        prompt = torch.randint(3, 100, (2, 8), device=device)
        return DecodeStep(model, prompt), (prompt[:, -1:].clone(),)

    return factory
