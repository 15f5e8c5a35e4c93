"""Steps of openai-whisper 20250625 as published, each with a repair (`_repaired`). See docs/case-studies.md."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

Target = tuple[Any, tuple[Any, ...]]
INFINITE = float("inf")


def _logits(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Make tokens, logits and sums of log-probabilities for four sequences. The vocabulary has 60 tokens."""
    tokens = torch.randint(0, 60, (4, 8), device=device)
    return tokens, torch.randn(4, 60, device=device), -torch.rand(4, device=device)


def _greedy(device: torch.device, temperature: float) -> Target:
    from whisper.decoding import GreedyDecoder

    decoder = GreedyDecoder(temperature, eot=59)
    return lambda tokens, logits, sums: decoder.update(tokens, logits, sums.clone()), _logits(device)


def _next(tokens: Tensor, logits: Tensor, sums: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    going = tokens[:, -1] != 59
    sums.add_(logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0] * going)
    tokens = torch.cat([tokens, torch.where(going, chosen, 59)[:, None]], dim=-1)
    return tokens, (tokens[:, -1] == 59).all()


def greedy(device: torch.device) -> Target:
    return _greedy(device, 0.0)


def greedy_repaired(device: torch.device) -> Target:
    return lambda tokens, logits, sums: _next(tokens, logits, sums.clone(), logits.argmax(-1)), _logits(device)


def sampling(device: torch.device) -> Target:
    return _greedy(device, 0.7)


def sampling_repaired(device: torch.device) -> Target:
    from torch.distributions import Categorical

    def step(tokens: Tensor, logits: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        chosen = Categorical(logits=logits / 0.7, validate_args=False).sample()
        return _next(tokens, logits, sums.clone(), chosen)

    return step, _logits(device)


def beam_search(device: torch.device) -> Target:
    from whisper.decoding import BeamSearchDecoder

    inference: Any = SimpleNamespace(rearrange_kv_cache=lambda rows: None)
    decoder = BeamSearchDecoder(2, 59, inference)

    def step(tokens: Tensor, logits: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        decoder.reset()
        sums = sums.clone()
        return decoder.update(tokens, logits, sums)[0], sums

    return step, _logits(device)


def beam_search_repaired(device: torch.device) -> Target:
    audio = torch.tensor([[0], [2]], device=device)  # the first row of each of two audios

    def step(tokens: Tensor, logits: Tensor, sums: Tensor) -> tuple[Tensor, Tensor]:
        score, token = logits.log_softmax(-1).topk(3)  # one more than the beam: at most one of them ends the text
        score = (score + sums[:, None]).masked_fill(token == 59, -INFINITE)
        best, place = score.view(2, 6).topk(2)
        chosen, row = token.view(2, 6).gather(1, place), audio + place // 3
        return torch.cat([tokens[row.view(4)], chosen.view(4, 1)], dim=1), best.view(4)

    return step, _logits(device)


def suppressed(device: torch.device) -> Target:
    from whisper.decoding import SuppressTokens

    def step(tokens: Tensor, logits: Tensor) -> Tensor:
        logits = logits.clone()
        SuppressTokens([1, 5, 7]).apply(logits, tokens)
        return logits

    return step, _logits(device)[:2]


def suppressed_repaired(device: torch.device) -> Target:
    banned = torch.tensor([1, 5, 7], device=device)
    return lambda tokens, logits: logits.index_fill(1, banned, -INFINITE), _logits(device)[:2]


def timestamp_rules(device: torch.device) -> Target:
    from whisper.decoding import ApplyTimestampRules

    tokenizer: Any = SimpleNamespace(no_timestamps=40, timestamp_begin=41, eot=30)
    rules = ApplyTimestampRules(tokenizer, 3, None)

    def step(tokens: Tensor, logits: Tensor) -> Tensor:
        logits = logits.clone()
        rules.apply(logits, tokens)
        return logits

    return step, _logits(device)[:2]


def timestamp_rules_repaired(device: torch.device) -> Target:
    def step(tokens: Tensor, logits: Tensor) -> Tensor:
        said, vocabulary = tokens[:, 3:], torch.arange(60, device=logits.device)
        is_time, times = said >= 41, vocabulary >= 41
        pair, half = is_time[:, -1:] & is_time[:, -2:-1], is_time[:, -1:] & ~is_time[:, -2:-1]
        place = torch.where(is_time, torch.arange(5, device=said.device), -1).amax(1, keepdim=True)
        after = said.gather(1, place.clamp(min=0)) + torch.where(half, 0, 1)
        least = torch.where(place >= 0, after, 41)
        banned = (vocabulary == 40) | (pair & times) | (half & (vocabulary < 30)) | (times & (vocabulary < least))
        logits = logits.masked_fill(banned, -INFINITE)
        chances = logits.log_softmax(-1)
        sample = chances[:, 41:].logsumexp(-1, keepdim=True) > chances[:, :41].amax(-1, keepdim=True)
        return logits.masked_fill(sample & ~times, -INFINITE)

    return step, _logits(device)[:2]


def beam_order(device: torch.device) -> Target:
    from whisper.decoding import PyTorchInference

    def step(keys: Tensor) -> Tensor:
        inference: Any = SimpleNamespace(kv_modules=["keys"], kv_cache={"keys": keys})
        PyTorchInference.rearrange_kv_cache(inference, [1, 0, 3, 3])
        return inference.kv_cache["keys"]

    return step, (torch.randn(4, 6, 16, device=device),)


def beam_order_repaired(device: torch.device) -> Target:
    rows = torch.tensor([1, 0, 3, 3], device=device)
    return lambda keys: keys.index_select(0, rows), beam_order(device)[1]


def log_mel(device: torch.device) -> Target:
    from whisper.audio import log_mel_spectrogram

    return log_mel_spectrogram, (torch.randn(1600, device=device),)


def log_mel_repaired(device: torch.device) -> Target:
    from whisper.audio import mel_filters

    window, filters = torch.hann_window(400, device=device), mel_filters(device, 80)

    def step(audio: Tensor) -> Tensor:
        spectrum = torch.stft(audio, 400, 160, window=window, return_complex=True)
        logarithm = (filters @ spectrum[..., :-1].abs() ** 2).clamp(min=1e-10).log10()
        return (torch.maximum(logarithm, logarithm.max() - 8.0) + 4.0) / 4.0

    return step, log_mel(device)[1]


def _model(device: torch.device) -> tuple[Any, Tensor]:
    """Make a small model with the vocabulary of multilingual models, and the features of two recordings."""
    from whisper.model import ModelDimensions, Whisper

    sizes = {"n_audio_ctx": 10, "n_audio_state": 16, "n_audio_head": 2, "n_audio_layer": 1, "n_mels": 80}
    text = {"n_vocab": 51865, "n_text_ctx": 2048, "n_text_state": 16, "n_text_head": 2, "n_text_layer": 1}
    model = Whisper(ModelDimensions(**sizes, **text))
    nn.init.normal_(model.decoder.positional_embedding, std=0.1)
    return model.to(device).eval().requires_grad_(False), torch.randn(2, 10, 16, device=device)


def language(device: torch.device) -> Target:
    from whisper.decoding import detect_language
    from whisper.tokenizer import get_tokenizer

    (model, features), tokenizer = _model(device), get_tokenizer(True, num_languages=99)
    return lambda features: detect_language(model, features, tokenizer)[0], (features,)


def language_repaired(device: torch.device) -> Target:
    from whisper.tokenizer import get_tokenizer

    (model, features), tokenizer = _model(device), get_tokenizer(True, num_languages=99)
    others = torch.ones(51865, dtype=torch.bool)
    others[list(tokenizer.all_language_tokens)] = False
    others, start = others.to(device), torch.full((2, 1), tokenizer.sot, device=device)
    return lambda features: model.logits(start, features)[:, 0].masked_fill(others, -INFINITE).argmax(-1), (features,)


def decoding_loop(device: torch.device) -> Target:
    from whisper.decoding import DecodingOptions, DecodingTask

    model, features = _model(device)
    plain = {"suppress_tokens": "", "suppress_blank": False, "without_timestamps": True}
    task = DecodingTask(model, DecodingOptions(language="en", fp16=False, sample_len=1, **plain))
    start = torch.tensor([task.initial_tokens] * 2, device=device)
    return lambda features: task._main_loop(features, start)[:2], (features,)


def decoding_loop_repaired(device: torch.device) -> Target:
    model, features = _model(device)
    start = torch.tensor([[50258, 50259, 50359, 50363]] * 2, device=device)  # English, transcribed, no timestamps

    def step(features: Tensor) -> tuple[Tensor, Tensor]:
        logits = model.logits(start, features)[:, -1]
        chosen = logits.argmax(-1, keepdim=True)
        return torch.cat([start, chosen], dim=1), logits.log_softmax(-1).gather(1, chosen)[:, 0]

    return step, (features,)


def growing_keys(device: torch.device) -> Target:
    from whisper.decoding import PyTorchInference

    model, features = _model(device)
    inference = PyTorchInference(model, initial_token_length=3)
    inference.logits(torch.randint(0, 50257, (2, 3), device=device), features)
    return lambda token: inference.logits(token, features), (torch.randint(0, 50257, (2, 1), device=device),)


def growing_keys_repaired(device: torch.device) -> Target:
    model, features = _model(device)
    decoder, (block,) = model.decoder, model.decoder.blocks
    across = {part: part(features) for part in (block.cross_attn.key, block.cross_attn.value)}
    keys, values = (torch.zeros(2, 2048, 16, device=device) for _ in range(2))  # as long as the longest text
    places, place = torch.arange(2048, device=device), torch.arange(3, device=device)

    def forward(tokens: Tensor, place: Tensor) -> Tensor:
        x = decoder.token_embedding(tokens) + decoder.positional_embedding[place]
        inner = block.attn_ln(x)
        keys.index_copy_(1, place, block.attn.key(inner))
        values.index_copy_(1, place, block.attn.value(inner))
        heads = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in (block.attn.query(inner), keys, values))
        mixed = nn.functional.scaled_dot_product_attention(*heads, attn_mask=places <= place[:, None])
        x = x + block.attn.out(mixed.transpose(1, 2).flatten(2))
        x = x + block.cross_attn(block.cross_attn_ln(x), features, kv_cache=across)[0]
        return decoder.ln(x + block.mlp(block.mlp_ln(x))) @ decoder.token_embedding.weight.T

    forward(torch.randint(0, 50257, (2, 3), device=device), place)
    last = place[-1:].clone()

    def step(token: Tensor) -> Tensor:
        last.add_(1)
        return forward(token, last)

    return step, (torch.randint(0, 50257, (2, 1), device=device),)
