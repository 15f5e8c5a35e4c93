"""Steps of the inference engine vLLM 0.33.0 as published, each with a repair. See docs/case-studies.md.

Each step calls the published function. `SimpleNamespace` stands in for objects of the engine that hold settings.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

import graphsafe

Target = tuple[Any, tuple[Any, ...]]
INFINITE = float("inf")


def _module(name: str) -> Any:
    settings: Any = import_module("vllm.utils.torch_utils")
    settings.PIN_MEMORY = torch.cuda.is_available()  # without a GPU the engine would set it to True
    return import_module(f"vllm.{name}")


def _without_torchvision(name: str) -> Any:
    """Import a module that imports torchvision. torchvision needs torch's CUDA build, and no step here uses it."""
    _module("model_executor.models.interfaces")  # loads the engine, which checks the installed packages
    images: Any = ModuleType("torchvision")
    images.transforms = ModuleType("torchvision.transforms")
    sys.modules |= {"torchvision": images, "torchvision.transforms": images.transforms}
    try:
        return _module(name)
    finally:
        del sys.modules["torchvision"], sys.modules["torchvision.transforms"]


def _stops(device: torch.device) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return the positions of two requests' stop tokens, and logits. A grammar allows one request only these tokens."""
    places = torch.tensor([0, 0, 2, 2], device=device), torch.tensor([4, 7, 4, 9], device=device)
    logits = torch.randn(3, 60, device=device)
    logits[2, [*range(4), *range(5, 9), *range(10, 60)]] = -INFINITE
    return places, logits


def minimum_tokens(device: torch.device) -> Target:
    processor = _module("v1.sample.logits_processor.builtin").MinTokensLogitsProcessor(None, device, False)
    places, logits = _stops(device)

    def step(logits: Tensor) -> Tensor:
        logits = logits.clone()
        processor._mask_stop_token_logits(logits, places, places)
        return logits

    return step, (logits,)


def minimum_tokens_repaired(device: torch.device) -> Target:
    places, logits = _stops(device)
    rows, _ = places
    infinite = torch.full((), -INFINITE, device=device)

    def step(logits: Tensor) -> Tensor:
        masked = logits.index_put(places, infinite)
        alone = masked.isneginf().all(-1)[rows]  # rows in which the grammar allows nothing but stop tokens
        return masked.index_put(places, torch.where(alone, logits[places], infinite))

    return step, (logits,)


def seeded_requests(device: torch.device) -> Target:
    sample = _module("v1.sample.ops.topk_topp_sampler").random_sample
    generators = {1: torch.Generator(device).manual_seed(7)}
    args = (torch.randn(3, 60, device=device).softmax(-1),)
    return lambda probs: sample(probs.clone(), generators), args


def seeded_requests_repaired(device: torch.device) -> graphsafe.Step:
    generator = torch.Generator(device).manual_seed(7)
    probs = torch.randn(3, 60, device=device).softmax(-1)
    seeded, noise = torch.tensor([[False], [True], [False]], device=device), torch.empty_like(probs)

    def draw(args: tuple[Tensor, Tensor], kwargs: dict[str, Any], k: int) -> None:
        args[0].copy_(torch.randn(3, 60, device=device).softmax(-1))
        args[1][1].exponential_(generator=generator)  # between steps, outside the graph

    def step(probs: Tensor, noise: Tensor) -> Tensor:
        drawn = torch.empty_like(probs).exponential_()
        return (probs / torch.where(seeded, noise, drawn)).argmax(-1)

    noise[1].exponential_(generator=generator)
    return graphsafe.Step(step, (probs, noise), refresh=draw)


def adapter_mapping(device: torch.device) -> Target:
    meta = _module("lora.ops.triton_ops.lora_kernel_metadata").LoRAKernelMeta.make(3, 8, device)

    def step(mapping: Tensor) -> tuple[Tensor, ...]:
        meta.prepare_tensors(mapping)
        tensors = (meta.token_indices_sorted_by_lora_ids, meta.active_lora_ids, meta.num_tokens_per_lora)
        return tuple(one.clone() for one in (*tensors, meta.lora_token_start_loc))

    return step, (torch.tensor([1, 1, -1, 0, 0, 0, 1, -1], dtype=torch.int32, device=device),)


def adapter_mapping_repaired(device: torch.device) -> Target:
    adapters = torch.arange(-1, 3, dtype=torch.int32, device=device)  # -1 stands for tokens without an adapter

    def step(mapping: Tensor) -> tuple[Tensor, ...]:
        order = mapping.argsort(stable=True).int()
        count = (mapping[:, None] == adapters).sum(0, dtype=torch.int32)
        first = (count == 0).int().argsort(stable=True)  # adapters of this step, then the others
        count = count[first]
        active = torch.where(count > 0, adapters[first], -1)
        starts = torch.where(count > 0, count.cumsum(0, dtype=torch.int32), 0)
        return order, active, count, nn.functional.pad(starts, (1, 0))

    return step, adapter_mapping(device)[1]


def image_attention(device: torch.device) -> Target:
    attention = _module("v1.attention.ops.vit_attn_wrappers").torch_sdpa_wrapper
    ends = torch.tensor([0, 4, 10], dtype=torch.int32, device=device)
    args = tuple(torch.randn(1, 10, 2, 8, device=device) for _ in range(3))
    return lambda q, k, v: attention(q, k, v, cu_seqlens=ends), args


def image_attention_repaired(device: torch.device) -> Target:
    lengths = [4, 6]  # the host knows the lengths of the images

    def step(*qkv: Tensor) -> Tensor:
        images = zip(*(one.transpose(1, 2).split(lengths, 2) for one in qkv), strict=True)
        return torch.cat([nn.functional.scaled_dot_product_attention(*image) for image in images], 2).transpose(1, 2)

    return step, image_attention(device)[1]


def _modalities(device: torch.device) -> tuple[SimpleNamespace, tuple[Tensor, Tensor]]:
    """Return a block with two sets of experts, tokens, and a mask. Each expert is a matrix and needs no GPU kernel."""
    block = SimpleNamespace(hidden_size=16)
    for kind in ("text", "vision"):
        gate, up = nn.Linear(16, 4, device=device), nn.Linear(16, 64, device=device)

        def experts(hidden_states: Tensor, router_logits: Tensor, up: nn.Linear = up) -> Tensor:
            return (up(hidden_states).view(-1, 4, 16) * router_logits.softmax(-1)[:, :, None]).sum(1)

        setattr(block, f"{kind}_experts_gate", lambda x, gate=gate: (gate(x), None))
        setattr(block, f"{kind}_experts", experts)
    mask = torch.tensor([False, True, True, False, False], device=device)[:, None]
    return block, (torch.randn(5, 16, device=device), mask)


def modality_experts(device: torch.device) -> Target:
    forward = _module("model_executor.models.ernie45_vl_moe").Ernie4_5_VLMoeMoE.forward
    block, args = _modalities(device)
    return lambda x, mask: forward(block, x, mask).detach(), args


def modality_experts_repaired(device: torch.device) -> Target:
    block, args = _modalities(device)

    def step(x: Tensor, mask: Tensor) -> Tensor:
        text = block.text_experts(x, block.text_experts_gate(x)[0])
        return torch.where(mask, block.vision_experts(x, block.vision_experts_gate(x)[0]), text).detach()

    return step, args


def reversed_sequences(device: torch.device) -> Target:
    flip = _module("model_executor.models.siglip").SiglipEmbeddingModel._flip_sequences_by_position_ids
    places = torch.tensor([0, 1, 2, 0, 1, 0, 1, 2], device=device)
    return lambda x, places: flip(None, x, places), (torch.randn(8, 16, device=device), places)


def reversed_sequences_repaired(device: torch.device) -> Target:
    def step(x: Tensor, places: Tensor) -> Tensor:
        row, new = torch.arange(8, device=x.device), places.diff() <= 0
        start = torch.where(nn.functional.pad(new, (1, 0)), row, 0).cummax(0)[0]
        last = torch.where(nn.functional.pad(new, (0, 1), value=True), row, 8).flip(0).cummin(0)[0].flip(0)
        return x[start + last - row]

    return step, reversed_sequences(device)[1]


def _history(device: torch.device) -> dict[str, Tensor]:
    return {f"_fp8_{one}_amax": torch.zeros(16, device=device) for one in "qkv"} | {
        f"_fp8_{one}_scale": torch.ones(1, 1, 1, 1, device=device) for one in "qkv"
    }


def encoder_scales(device: torch.device) -> Target:
    update = _module("model_executor.layers.attention.mm_encoder_attention").MMEncoderAttention
    layer = SimpleNamespace(_fp8_amax_pos=0, layer_name="encoder", **_history(device))

    def step(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        update._record_amax_and_update_scales(layer, q, k, v)
        return tuple(getattr(layer, f"_fp8_{one}_scale").clone() for one in "qkv")

    return step, tuple(torch.randn(1, 4, 2, 8, device=device) for _ in range(3))


def encoder_scales_repaired(device: torch.device) -> Target:
    history, place = _history(device), torch.zeros(1, dtype=torch.long, device=device)

    def step(*qkv: Tensor) -> tuple[Tensor, ...]:
        for one, x in zip("qkv", qkv, strict=True):
            seen = history[f"_fp8_{one}_amax"].index_copy_(0, place, x.amax()[None])
            history[f"_fp8_{one}_scale"].fill_(seen.max().clamp(min=torch.finfo(torch.float32).tiny) / 448)
        place.add_(1).remainder_(16)
        return tuple(history[f"_fp8_{one}_scale"].clone() for one in "qkv")

    return step, encoder_scales(device)[1]


def step_pool(device: torch.device) -> Target:
    methods = _module("model_executor.layers.pooler.tokwise.methods")
    pool = object.__new__(methods.StepPool)  # its constructor asks for the whole configuration
    nn.Module.__init__(pool)
    pool.output_sizes_fn, pool.enable_chunked_prefill, pool.clone_finished = None, False, False
    cursor = SimpleNamespace(num_scheduled_tokens_cpu=torch.tensor([3, 5]))
    batch = SimpleNamespace(
        get_pooling_cursor=lambda: cursor,
        get_prompt_token_ids_cpu=lambda: [torch.arange(3), torch.arange(5)],
        pooling_params=[SimpleNamespace(step_tag_id=None, returned_token_ids=[7, 9])] * 2,
    )
    return lambda x: tuple(pool(x, batch)), (torch.randn(8, 60, device=device),)


def step_pool_repaired(device: torch.device) -> Target:
    good_and_bad = torch.tensor([7, 9], device=device)  # sent once, with the request
    return lambda x: tuple(one.index_select(1, good_and_bad) for one in x.split([3, 5])), step_pool(device)[1]


def repeated_words(device: torch.device) -> Target:
    processor = _without_torchvision("model_executor.models.deepseek_ocr").NoRepeatNGramLogitsProcessor(3, 100)
    history = [5, 6, 7, 5, 6, 8, 9, 5, 6]
    return lambda logits: processor(history, logits.clone()), (torch.randn(60, device=device),)


def repeated_words_repaired(device: torch.device) -> Target:
    history = torch.tensor([5, 6, 7, 5, 6, 8, 9, 5, 6], device=device)  # the engine's token ids are on the device

    def step(logits: Tensor, history: Tensor) -> Tensor:
        words = history.unfold(0, 3, 1)
        repeats = (words[:, :-1] == history[-2:]).all(1)
        return logits.scatter_reduce(0, words[:, -1], torch.where(repeats, -INFINITE, INFINITE), "amin")

    return step, (*repeated_words(device)[1], history)


def audio_frames(device: torch.device) -> Target:
    flatten = _module("model_executor.models.glmasr_utils")._flatten_audio_features_by_length
    lengths = torch.tensor([5, 2, 4], device=device)
    return lambda x: flatten(x, lengths), (torch.randn(3, 5, 16, device=device),)


def audio_frames_repaired(device: torch.device) -> Target:
    frames = [5 * chunk + frame for chunk, length in enumerate([5, 2, 4]) for frame in range(length)]
    places = torch.tensor(frames, device=device)  # made from lengths on the host, once for each batch of recordings
    return lambda x: x.flatten(0, 1)[places], audio_frames(device)[1]


def patch_order(device: torch.device) -> Target:
    order = _module("model_executor.models.muse_glimmer").MuseGlimmerVisionEncoder._get_sparse_permutation
    blocks = SimpleNamespace(pos_emb_height=2, pos_emb_width=2)
    return lambda x: x[order(blocks, 3, 5, x.device)[0]], (torch.randn(15, 16, device=device),)


def patch_order_repaired(device: torch.device) -> Target:
    padded = nn.functional.pad(torch.arange(15).view(3, 5), (0, 1, 0, 1), value=-1)
    order = padded.view(2, 2, 3, 2).transpose(1, 2).flatten()
    places = order[order >= 0].to(device)  # made on the host, and sent once for each size of image
    return lambda x: x[places], patch_order(device)[1]
