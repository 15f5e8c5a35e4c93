"""Steps of curated_transformers, rwkv, rotary_embedding_torch and timesfm: models of sequences."""

import dataclasses
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn


def _prompts(device, length=6):
    ids = torch.randint(5, 50, (2, length), device=device)
    mask = torch.ones(2, length, dtype=torch.bool, device=device)
    mask[1, :2] = False
    return ids, mask


def curated_encoder_training(device):
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models import BERTConfig, BERTEncoder

    config = BERTConfig(
        embedding_width=32, hidden_width=32, intermediate_width=64, n_attention_heads=2, n_hidden_layers=2, n_pieces=50,
        n_positions=16,
    )  # fmt: skip
    model, head = BERTEncoder(config, device=device), nn.Linear(32, 3).to(device)
    model.train()
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)

    def step(ids, mask, labels):
        optimizer.zero_grad()
        output = model(ids, AttentionMask(mask))
        loss = F.cross_entropy(head(output.last_hidden_layer_state[:, 0]), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (*_prompts(device), torch.tensor([0, 2], device=device))


def curated_roberta(device):
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models import RoBERTaConfig, RoBERTaEncoder

    config = RoBERTaConfig(
        embedding_width=32, hidden_width=32, intermediate_width=64, n_attention_heads=2, n_hidden_layers=2, n_pieces=50,
        n_positions=20, padding_id=1,
    )  # fmt: skip
    model = RoBERTaEncoder(config, device=device).eval()

    def step(ids, mask):
        with torch.no_grad():
            return model(ids, AttentionMask(mask)).last_hidden_layer_state

    return step, _prompts(device)


def _curated_llama(device, heads=4):
    from curated_transformers.models import LlamaCausalLM, LlamaConfig

    config = LlamaConfig(
        hidden_width=32, intermediate_width=64, n_query_heads=heads, n_key_value_heads=2, n_hidden_layers=2,
        n_pieces=50, rotary_embedding_fraction=1.0, dtype=torch.float32,
    )  # fmt: skip
    return LlamaCausalLM(config, device=device).to(device).eval()


def curated_cache(device):
    """A prompt and three tokens after it, with the keys and values kept."""
    from curated_transformers.layers import AttentionMask

    model = _curated_llama(device)

    def step(ids, mask):
        with torch.no_grad():
            output = model(ids, AttentionMask(mask), store_cache=True)
            for _ in range(3):
                token = output.logits[:, -1:].argmax(-1)
                mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
                output = model(token, AttentionMask(mask), cache=output.cache, store_cache=True)
        return output.logits

    return step, _prompts(device)


def curated_falcon_training(device):
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models import FalconCausalLM, FalconConfig

    config = FalconConfig(
        hidden_width=32, n_query_heads=4, n_key_value_heads=1, n_hidden_layers=2, n_pieces=50, use_alibi=True,
        new_decoder_architecture=False, use_bias=False, use_parallel_attention=True, dtype=torch.float32,
    )  # fmt: skip
    model = FalconCausalLM(config, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids, mask):
        optimizer.zero_grad()
        logits = model(ids, AttentionMask(mask)).logits
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _prompts(device)


def curated_neox_training(device):
    """The loss is taken where the mask is set."""
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models import GPTNeoXCausalLM, GPTNeoXConfig

    config = GPTNeoXConfig(
        hidden_width=32, intermediate_width=64, n_attention_heads=2, n_hidden_layers=2, n_pieces=50, dtype=torch.float32
    )
    model = GPTNeoXCausalLM(config, device=device).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids, mask):
        optimizer.zero_grad()
        logits = model(ids, AttentionMask(mask)).logits
        losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (losses * mask[:, 1:]).sum() / mask[:, 1:].sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _prompts(device)


def curated_albert(device):
    from curated_transformers.layers import AttentionMask
    from curated_transformers.models import ALBERTConfig, ALBERTEncoder

    config = ALBERTConfig(
        embedding_width=16, hidden_width=32, intermediate_width=64, n_attention_heads=2, n_hidden_layers=4,
        n_hidden_groups=2, n_pieces=50, n_positions=16,
    )  # fmt: skip
    model = ALBERTEncoder(config, device=device).eval()

    def step(ids, mask, types):
        with torch.no_grad():
            return model(ids, AttentionMask(mask), type_ids=types).all_outputs

    return step, (*_prompts(device), torch.zeros(2, 6, dtype=torch.long, device=device))


def _receptance(device, width=32, layers=2, pieces=65530):
    """A model of RWKV-6 with random weights, read from a file."""
    os.environ.update(RWKV_JIT_ON="0", RWKV_CUDA_ON="0")
    from rwkv.model import RWKV

    def matrix(rows, columns):
        return torch.randn(rows, columns) / rows**0.5

    weights = {"emb.weight": matrix(pieces, width), "head.weight": matrix(pieces, width)}
    norms = ["ln_out", "blocks.0.ln0"]
    for i in range(layers):
        attention, feedforward = f"blocks.{i}.att.", f"blocks.{i}.ffn."
        norms += [f"blocks.{i}.ln1", f"blocks.{i}.ln2", attention + "ln_x"]
        for name in ("maa_x", "maa_w", "maa_k", "maa_v", "maa_r", "maa_g", "decay"):
            weights[attention + "time_" + name] = torch.rand(1, 1, width)
        weights[attention + "time_maa_w1"] = matrix(width, 5 * 8)
        weights[attention + "time_maa_w2"] = torch.randn(5, 8, width) / 8**0.5
        weights[attention + "time_decay_w1"] = matrix(width, 8)
        weights[attention + "time_decay_w2"] = matrix(8, width)
        weights[attention + "time_faaaa"] = torch.randn(2, width // 2)
        for name in ("receptance", "key", "value", "gate", "output"):
            weights[attention + name + ".weight"] = matrix(width, width)
        for name in ("maa_k", "maa_r"):
            weights[feedforward + "time_" + name] = torch.rand(1, 1, width)
        weights[feedforward + "key.weight"] = matrix(2 * width, width)
        weights[feedforward + "value.weight"] = matrix(width, 2 * width)
        weights[feedforward + "receptance.weight"] = matrix(width, width)
    for name in norms:
        weights[name + ".weight"], weights[name + ".bias"] = torch.ones(width), torch.zeros(width)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(weights, os.path.join(folder, "model.pth"))
        return RWKV(model=os.path.join(folder, "model"), strategy=f"{device.type} fp32", verbose=False)


def receptance_prompt(device):
    model = _receptance(device)

    def step():
        return model.forward([187, 510, 1563, 310, 247], None)

    return step, ()


def receptance_token(device):
    """One token after the state of the tokens before it."""
    model = _receptance(device)
    _, state = model.forward([187, 510, 1563], None)

    def step():
        return model.forward([310], [s.clone() for s in state])

    return step, ()


def receptance_scores(device):
    model = _receptance(device)

    def step(targets):
        logits, _ = model.forward([187, 510, 1563, 310], None, full_output=True)
        return F.cross_entropy(logits, targets)

    return step, (torch.tensor([510, 1563, 310, 247], device=device),)


def receptance_generation(device):
    from rwkv.utils import PIPELINE, PIPELINE_ARGS

    pipeline = PIPELINE(_receptance(device), "rwkv_vocab_v20230424")
    args = PIPELINE_ARGS(
        temperature=1.0, top_p=0.7, top_k=100, alpha_frequency=0.25, alpha_presence=0.25, token_ban=[0], token_stop=[]
    )

    def step():
        return pipeline.generate("In a shocking finding", token_count=4, args=args)

    return step, ()


def rotary_queries(device):
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=16).to(device)

    def step(q, k, v):
        q, k = rotary.rotate_queries_or_keys(q), rotary.rotate_queries_or_keys(k)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return step, tuple(torch.randn(2, 4, 12, 16, device=device) for _ in range(3))


def rotary_cached_keys(device):
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=16).to(device)

    def step(q, k):
        return rotary.rotate_queries_with_cached_keys(q, k)

    return step, (torch.randn(2, 4, 1, 16, device=device), torch.randn(2, 4, 12, 16, device=device))


def rotary_axes(device):
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    rotary = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=256).to(device)

    def step(q, k):
        freqs = rotary.get_axial_freqs(4, 6, 5)
        return apply_rotary_emb(freqs, q), apply_rotary_emb(freqs, k)

    return step, (torch.randn(2, 4, 6, 5, 32, device=device), torch.randn(2, 4, 6, 5, 32, device=device))


def rotary_extrapolation(device):
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=16, use_xpos=True).to(device)

    def step(q, k):
        return rotary.rotate_queries_and_keys(q, k)

    return step, (torch.randn(2, 4, 12, 16, device=device), torch.randn(2, 4, 12, 16, device=device))


def rotary_learned_training(device):
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=16, learned_freq=True, interpolate_factor=2.0).to(device)
    optimizer = torch.optim.Adam(rotary.parameters(), lr=1e-3)

    def step(q, k):
        optimizer.zero_grad()
        scores = rotary.rotate_queries_or_keys(q) @ rotary.rotate_queries_or_keys(k, offset=1).mT
        loss = scores.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 4, 12, 16, device=device), torch.randn(2, 4, 12, 16, device=device))


def _foundation(device, width=64):
    """TimesFM 2.5 with two small layers."""
    from timesfm.timesfm_2p5.timesfm_2p5_base import TimesFM_2p5_200M_Definition
    from timesfm.timesfm_2p5.timesfm_2p5_torch import TimesFM_2p5_200M_torch, TimesFM_2p5_200M_torch_module

    full, change = TimesFM_2p5_200M_Definition(), dataclasses.replace
    layer = change(full.stacked_transformers.transformer, model_dims=width, hidden_dims=width, num_heads=2)

    class Module(TimesFM_2p5_200M_torch_module):
        config = change(
            full,
            tokenizer=change(full.tokenizer, hidden_dims=width, output_dims=width),
            stacked_transformers=change(full.stacked_transformers, num_layers=2, transformer=layer),
            output_projection_point=change(full.output_projection_point, input_dims=width, hidden_dims=width),
            output_projection_quantiles=change(full.output_projection_quantiles, input_dims=width, hidden_dims=width),
        )

    class Model(TimesFM_2p5_200M_torch):
        def __init__(self):
            self.model = Module().to(device).eval()

    return Model()


def _series(device, count=2, length=128):
    masks = torch.zeros(count, length, dtype=torch.bool, device=device)
    return torch.rand(count, length, device=device).cumsum(-1), masks


def foundation_decoding(device):
    model = _foundation(device).model

    def step(values, masks):
        return model.decode(256, values, masks)

    return step, _series(device)


def foundation_training(device):
    model = _foundation(device).model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(values, masks):
        optimizer.zero_grad()
        patches = values.unflatten(-1, (-1, 32))
        (_, _, points, _), _ = model(patches, masks.unflatten(-1, (-1, 32)))
        loss = F.mse_loss(points.unflatten(-1, (128, 10))[:, :-1, :32, 5], patches[:, 1:])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, _series(device)


def foundation_forecast(device):
    import timesfm

    model = _foundation(device)
    model.compile(
        timesfm.ForecastConfig(
            max_context=128, max_horizon=128, normalize_inputs=True, use_continuous_quantile_head=True,
            force_flip_invariance=True, infer_is_positive=True, fix_quantile_crossing=True, per_core_batch_size=2,
        )
    )  # fmt: skip

    def step(values):
        return model.forecast(horizon=12, inputs=[*values.cpu().numpy()])

    return step, _series(device, length=100)[:1]


def foundation_backcast(device):
    """A longer horizon than one patch, with the fit of the context."""
    import timesfm

    model = _foundation(device)
    model.compile(
        timesfm.ForecastConfig(
            max_context=128, max_horizon=256, infer_is_positive=False, force_flip_invariance=False,
            return_backcast=True, per_core_batch_size=2,
        )
    )  # fmt: skip

    def step(values):
        return model.forecast(horizon=200, inputs=[*values.cpu().numpy()])

    return step, _series(device, length=100)[:1]
