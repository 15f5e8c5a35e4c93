"""Steps of transformers 5.23.0 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import graphsafe

Target = tuple[Any, tuple[Any, ...]]


def top_h(device: torch.device) -> Target:
    from transformers import TopHLogitsWarper

    args = (torch.zeros(2, 1, dtype=torch.long, device=device), torch.randn(2, 200, device=device))
    return TopHLogitsWarper(top_h=0.4), args


def top_h_repaired(device: torch.device) -> Target:
    from torch.distributions import Categorical

    def step(ids: Tensor, scores: Tensor) -> Tensor:
        top, places = torch.topk(scores, 100, dim=-1)
        chances = Categorical(logits=top, validate_args=False)
        spent = torch.cumsum(-chances.probs * torch.log(chances.probs), dim=-1)
        chosen = spent <= (chances.entropy() * 0.4).unsqueeze(-1)
        chosen[:, :1].fill_(True)
        keep = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, places, chosen)
        return scores.masked_fill(~keep, -float("inf"))

    return step, top_h(device)[1]


def prompt_ngrams(device: torch.device) -> Target:
    from transformers.generation.logits_process import EncoderNoRepeatNGramLogitsProcessor

    prompt, ids = torch.randint(0, 6, (2, 12), device=device), torch.randint(0, 6, (2, 5), device=device)
    return EncoderNoRepeatNGramLogitsProcessor(2, prompt), (ids, torch.randn(2, 6, device=device))


def prompt_ngrams_repaired(device: torch.device) -> Target:
    prompt, ids = torch.randint(0, 6, (2, 12), device=device), torch.randint(0, 6, (2, 5), device=device)
    windows = prompt.unfold(1, 2, 1)

    def step(ids: Tensor, scores: Tensor) -> Tensor:
        matches = (windows[..., :-1] == ids[:, None, -1:]).all(-1)
        banned = torch.zeros(2, scores.size(1) + 1, dtype=torch.bool, device=scores.device)
        banned.scatter_(1, torch.where(matches, windows[..., -1], scores.size(1)), True)  # the spare column: no match
        return scores.masked_fill(banned[:, :-1], -float("inf"))

    return step, (ids, torch.randn(2, 6, device=device))


def _bart(device: torch.device) -> Any:
    from transformers import BartConfig, BartForSequenceClassification

    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 64, "max_position_embeddings": 32}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    return BartForSequenceClassification(BartConfig(**sizes, **heads)).to(device).eval().requires_grad_(False)


def _sentences(device: torch.device) -> tuple[Tensor]:
    ids = torch.randint(3, 64, (2, 8))
    ids[:, -1] = 2  # the end of each sequence
    return (ids.to(device),)


def _refresh(args: tuple[Tensor], kwargs: dict[str, Any], k: int) -> None:
    args[0].copy_(_sentences(torch.device("cpu"))[0])  # other sentences, each with its end


def bart_classifier(device: torch.device) -> graphsafe.Step:
    model = _bart(device)
    return graphsafe.Step(lambda ids: model(ids, use_cache=False).logits, _sentences(device), refresh=_refresh)


def bart_classifier_repaired(device: torch.device) -> graphsafe.Step:
    model = _bart(device)

    def step(ids: Tensor) -> Tensor:
        hidden = model.model(ids, use_cache=False).last_hidden_state
        places = torch.arange(ids.size(1), device=ids.device)
        last = torch.where(ids == 2, places, 0).amax(1)  # the last end token of each sequence
        return model.classification_head(hidden.gather(1, last.view(-1, 1, 1).expand(-1, 1, hidden.size(-1)))[:, 0])

    return graphsafe.Step(step, _sentences(device), refresh=_refresh)


def _mixtral(device: torch.device, experts: str) -> Target:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_local_experts": 4}
    config = MixtralConfig(**sizes, **heads, experts_implementation=experts)
    model = MixtralForCausalLM(config).to(device).eval().requires_grad_(False)

    def step(ids: Tensor) -> Tensor:
        return model(ids, use_cache=False).logits

    return step, (torch.randint(3, 64, (2, 8), device=device),)


def mixtral_eager(device: torch.device) -> Target:
    return _mixtral(device, "eager")


def mixtral_eager_repaired(device: torch.device) -> Target:
    return _mixtral(device, "batched_mm")


def repetition_penalty(device: torch.device) -> Target:
    from transformers import RepetitionPenaltyLogitsProcessor

    args = (torch.randint(0, 32, (6,), device=device), torch.randn(1, 6, 32, device=device))
    return RepetitionPenaltyLogitsProcessor(1.2), args


def repetition_penalty_repaired(device: torch.device) -> Target:
    def step(ids: Tensor, scores: Tensor) -> Tensor:
        last = scores[:, -1, :]
        seen = torch.zeros_like(last, dtype=torch.bool).scatter_(1, ids.unsqueeze(0), True)  # repeats do no harm
        scores[:, -1, :] = torch.where(seen, torch.where(last < 0, last * 1.2, last / 1.2), last)
        return scores

    return step, repetition_penalty(device)[1]


def timestamps(device: torch.device) -> Target:
    from transformers import GenerationConfig, WhisperTimeStampLogitsProcessor

    config = GenerationConfig(no_timestamps_token_id=40, bos_token_id=30, eos_token_id=30)
    args = (torch.randint(0, 60, (4, 8), device=device), torch.randn(4, 60, device=device))
    return WhisperTimeStampLogitsProcessor(config, begin_index=3), args


def timestamps_repaired(device: torch.device) -> Target:
    def step(ids: Tensor, scores: Tensor) -> Tensor:
        said, vocabulary = ids[:, 3:], torch.arange(60, device=scores.device)
        is_time, times = said >= 41, vocabulary >= 41
        pair, half = is_time[:, -1:] & is_time[:, -2:-1], is_time[:, -1:] & ~is_time[:, -2:-1]
        place = torch.where(is_time, torch.arange(5, device=ids.device), -1).amax(1, keepdim=True)  # the last timestamp
        after = said.gather(1, place.clamp(min=0)) + torch.where(half, 0, 1)
        least = torch.where(place >= 0, after, 41)
        banned = (vocabulary == 40) | (pair & times) | (half & (vocabulary < 30)) | (times & (vocabulary < least))
        scores = scores.masked_fill(banned, -float("inf"))
        chances = scores.log_softmax(-1)
        sample = chances[:, 41:].logsumexp(-1, keepdim=True) > chances[:, :41].amax(-1, keepdim=True)
        return scores.masked_fill(sample & ~times, -float("inf"))

    return step, timestamps(device)[1]
