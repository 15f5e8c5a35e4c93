"""Steps of lmdeploy's PyTorch engine 0.16.0 as published, each with a repair. See docs/case-studies.md."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

import graphsafe

Target = tuple[Any, tuple[Any, ...]]
INFINITE = float("inf")
PACKAGES = (
    "backends.cuda backends.cuda.attention disagg engine engine.model_agent kernels memdecode strategies strategies.ar"
)


def _module(name: str) -> Any:
    """Import a module of the engine. The packages around it stay empty: they would load GPU kernels and servers."""
    if "lmdeploy" not in sys.modules:
        spec = find_spec("lmdeploy")
        assert spec and spec.origin
        for package in ("lmdeploy", *(f"lmdeploy.pytorch.{one}" for one in PACKAGES.split())):
            empty = sys.modules[package] = ModuleType(package)
            empty.__path__ = [str(Path(spec.origin).parent.joinpath(*package.split(".")[1:]))]
        guided: Any = ModuleType("guided_process")  # needs a library of grammars, which no step here uses
        guided.GuidedDecodingManager = object
        sys.modules["lmdeploy.pytorch.engine.guided_process"] = guided
    return import_module(f"lmdeploy.pytorch.{name}")


def prefill_places(device: torch.device) -> Target:
    build = _module("backends.cuda.attention.v4_utils").build_prefill_token_meta

    def step(lengths: Tensor, tokens: Tensor) -> Tensor:
        meta = build(lengths)
        return tokens + meta.token_pos + 10 * meta.seq_id

    return step, (torch.tensor([3, 4, 1], device=device), torch.randint(0, 9, (8,), device=device))


def prefill_places_repaired(device: torch.device) -> Target:
    def step(lengths: Tensor, tokens: Tensor) -> Tensor:
        ends = lengths.cumsum(0)
        token = torch.arange(tokens.numel(), device=tokens.device)  # the host knows how many tokens it has sent
        sequence = torch.searchsorted(ends, token, right=True).clamp(max=2)
        return tokens + token - (ends - lengths)[sequence] + 10 * sequence

    return step, prefill_places(device)[1]


def memory_fusion(device: torch.device) -> Target:
    settings = SimpleNamespace(lambda_value=0.3, adaptive_router=False, lambda_base_only_threshold=0.0)
    fusion = _module("memdecode.fusion").MemDecodeFusion(settings, 8, 8, 60)
    return fusion, (torch.randn(4, 60, device=device), torch.randn(4, 60, device=device))


def memory_fusion_repaired(device: torch.device) -> Target:
    import math

    def step(base: Tensor, memory: Tensor) -> Tensor:
        base_part, memory_part = base.log_softmax(-1) + math.log1p(-0.3), memory.log_softmax(-1) + math.log(0.3)
        return torch.logaddexp(base_part, memory_part) + base.logsumexp(-1, keepdim=True)

    return step, memory_fusion(device)[1]


def image_rows(device: torch.device) -> Target:
    inputs = _module("model_inputs").VisionModelInputs
    history, lengths = torch.tensor([0, 4], device=device), torch.tensor([4, 3], device=device)
    places = torch.zeros(2, 8, dtype=torch.bool, device=device)
    places[0, 1:3], places[1, 1:2] = True, True

    def step(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        ranges = [[(1, 3)], [(5, 6)]]
        return inputs(history, [[first], [second]], ranges, places).get_inputs(history, lengths)

    return step, (torch.randn(2, 16, device=device), torch.randn(1, 16, device=device))


def image_rows_repaired(device: torch.device) -> Target:
    rows = torch.tensor([1, 2, 5], device=device)  # made from lengths and ranges on the host, once for each prefill
    return lambda first, second: (torch.cat([first, second]), rows.clone()), image_rows(device)[1]


def _tokens(args: tuple[Tensor], kwargs: dict[str, Any], k: int) -> None:
    args[0].copy_(torch.randint(6, 8, (6,)))  # about half of them belong to an image


def image_masks(device: torch.device) -> graphsafe.Step:
    prepare = _module("models.gemma3_vl").Gemma3ForConditionalGeneration.prepare_attn_masks
    model = SimpleNamespace(config=SimpleNamespace(image_token_index=7), sliding_window=4)
    places = torch.arange(6, device=device)

    def step(ids: Tensor) -> tuple[Tensor, Tensor]:
        masks = prepare(model, ids, places, torch.float32)
        return masks["global_attn_masks"][0], masks["local_attn_masks"][0]

    return graphsafe.Step(step, (torch.randint(6, 8, (6,), device=device),), refresh=_tokens)


def image_masks_repaired(device: torch.device) -> graphsafe.Step:
    places = torch.arange(6, device=device)
    later, distance = places > places[:, None], places[:, None] - places

    def step(ids: Tensor) -> tuple[Tensor, Tensor]:
        image = ids == 7
        blocked = later & ~(image & image[:, None])
        masks = (
            torch.zeros_like(ids, dtype=torch.float32).masked_fill(one, -INFINITE)
            for one in (blocked, blocked | (distance >= 4))
        )
        return tuple(one[None, None] for one in masks)

    return graphsafe.Step(step, (torch.randint(6, 8, (6,), device=device),), refresh=_tokens)


def image_spans(device: torch.device) -> Target:
    count = _module("models.internvl").InternVLChatModel.get_image_num_per_sample
    ids = torch.tensor([[1, 9, 9, 9, 2, 9, 9, 3]], device=device)
    return lambda ids, more: tuple(part + more for part in count(None, ids, 9)), (
        ids,
        torch.randint(0, 9, (2,), device=device),
    )


def image_spans_repaired(device: torch.device) -> Target:
    def step(ids: Tensor, more: Tensor) -> tuple[Tensor, ...]:
        chosen = nn.functional.pad((ids[0] == 9).int(), (1, 1))
        change, place = chosen.diff(), torch.arange(9, device=ids.device)
        starts, ends = (torch.where(change == sign, place, 9).sort()[0][:2] for sign in (1, -1))  # two images were sent
        return tuple(part + more for part in (ends - starts, starts, ends))

    return step, image_spans(device)[1]


def _patches(device: torch.device) -> tuple[Any, Tensor, Tensor, Tensor]:
    settings = SimpleNamespace(hidden_size=16, image_size=8, patch_size=2)
    layer = _module("models.glm4_1v").Glm4vVisionEmbeddings(settings).to(device).requires_grad_(False)
    row = torch.tensor([0, 0, 1, 1, 0, 1], device=device)  # two images, of four patches and of two
    column = torch.tensor([0, 1, 0, 1, 0, 0], device=device)
    return layer, row, column, torch.randn(6, 16, device=device)


def patch_positions(device: torch.device) -> Target:
    layer, row, column, x = _patches(device)
    shapes = torch.tensor([[1, 2, 2], [1, 2, 1]], device=device)
    return lambda x: layer(x, [4, 2], shapes, row, column), (x,)


def patch_positions_repaired(device: torch.device) -> Target:
    layer, row, column, x = _patches(device)
    size = torch.tensor([[2, 2]] * 4 + [[1, 2]] * 2, device=device)  # width and height for each patch, from the host
    grid = ((torch.stack([column, row], -1) + 0.5) / size * 2 - 1)[None, :, None]

    def step(x: Tensor) -> Tensor:
        table = layer.position_embedding.weight.view(4, 4, 16).permute(2, 0, 1)[None]
        settings: dict[str, Any] = {"mode": "bicubic", "align_corners": False, "padding_mode": "border"}
        return x + nn.functional.grid_sample(table, grid, **settings)[0, :, :, 0].T

    return step, (x,)


def scoring(device: torch.device) -> Target:
    module = _module("engine.model_agent.scoring")
    score = next(one for name, one in vars(module).items() if name.endswith("ce_loss"))
    lengths = torch.tensor([5, 3], device=device)
    args = (torch.randn(8, 60, device=device), torch.randint(0, 60, (8,), device=device))
    return lambda logits, ids: score(logits, ids, lengths), args


def scoring_repaired(device: torch.device) -> Target:
    lengths = torch.tensor([5, 3], device=device)

    def step(logits: Tensor, ids: Tensor) -> Tensor:
        place, ends = torch.arange(7, device=ids.device), lengths.cumsum(0)
        loss = nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="none")
        loss = loss.masked_fill((place + 1 == ends[:, None]).any(0), 0.0)  # the last token of a sequence has no next
        sequence = torch.bucketize(place, ends, right=True)
        return torch.zeros_like(logits[:2, 0]).index_add_(0, sequence, loss)

    return step, scoring(device)[1]


def expert_chunks(device: torch.device) -> Target:
    sort = _module("backends.default.token_dispatcher").AlltoAllTokenDispatcher.sort_chunks_by_idxs
    sizes, order = torch.tensor([2, 0, 3, 1], device=device), torch.tensor([0, 2, 1, 3])
    return lambda x: sort(None, x, sizes, order), (torch.randn(6, 16, device=device),)


def expert_chunks_repaired(device: torch.device) -> Target:
    sizes, order = torch.tensor([2, 0, 3, 1], device=device), torch.tensor([0, 2, 1, 3], device=device)

    def step(x: Tensor) -> Tensor:
        chunk = torch.bucketize(torch.arange(6, device=x.device), sizes.cumsum(0), right=True)
        return x[order.argsort()[chunk].argsort(stable=True)]

    return step, expert_chunks(device)[1]


def token_history(device: torch.device) -> Target:
    steps, deltas = _module("strategies.ar.step_inputs"), _module("engine.logits_process").SamplingInputsDelta
    delta = deltas(
        torch.zeros(2, dtype=torch.long, device=device), None, torch.ones(2, 4, dtype=torch.long, device=device)
    )
    return lambda ids: steps.step_sampling_delta(delta, ids).all_ids[:, -3:].clone(), (
        torch.randint(0, 60, (2,), device=device),
    )


def token_history_repaired(device: torch.device) -> Target:
    history = torch.ones(2, 2048, dtype=torch.long, device=device)  # for the longest possible session
    place, last = torch.full((1,), 4, device=device), torch.arange(-2, 1, device=device)

    def step(ids: Tensor) -> Tensor:
        history.index_copy_(1, place, ids[:, None])
        seen = history.index_select(1, place + last)
        place.add_(1)
        return seen

    return step, token_history(device)[1]


def _series(device: torch.device) -> tuple[Any, Tensor]:
    encoder = _module("models.interns1_pro_time_series").InternS1ProTimeSeriesMultiChannelAdaptiveSubsampling
    return encoder().to(device).eval().requires_grad_(False), torch.randn(1, 400, 2, device=device)


def time_series(device: torch.device) -> Target:
    encoder, series = _series(device)
    lengths, rate = torch.tensor([400]), torch.tensor([100.0], device=device)
    return lambda series: encoder(series, lengths, rate)[0], (series,)


def time_series_repaired(device: torch.device) -> Target:
    encoder, series = _series(device)
    stride = int(160 / (1 + 2.718281828459045**-1.0) ** 6)  # for a sampling rate of 100, which the host knows
    count = -(-(400 - 2 * stride) // stride) + 1
    starts = torch.arange(count, device=device)[:, None] * stride
    places = starts + torch.arange(2 * stride, device=device)
    missing = (count - 1) * stride + 2 * stride - 400

    def step(series: Tensor) -> Tensor:
        padded = nn.functional.pad(series[0], (0, 0, 0, missing))
        out = encoder.forward_encoder(padded[places])[None]
        out = out[:, : out.size(1) // 2 * 2]
        return torch.cat([out[:, ::2], out[:, 1::2]], dim=2)

    return step, (series,)
