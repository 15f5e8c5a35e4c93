"""Tiny causal language models of transformers, one for each model type that can be built without a download."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SIZES: dict[str, int] = {
    **dict.fromkeys(
        "hidden_size d_model n_embd dim model_dim embedding_dim emb_dim word_embed_proj_dim rnn_hidden_size".split(), 64
    ),
    **dict.fromkeys("attention_hidden_size lru_width hidden_dim".split(), 64),
    **dict.fromkeys("num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers".split(), 2),
    **dict.fromkeys(
        "num_attention_heads n_head n_heads num_heads decoder_attention_heads encoder_attention_heads".split(), 4
    ),
    **dict.fromkeys("num_key_value_heads num_kv_heads multi_query_group_num".split(), 2),
    **dict.fromkeys(
        "head_dim attention_head_dim d_kv v_head_dim qk_nope_head_dim global_head_dim swa_head_dim".split(), 16
    ),
    **dict.fromkeys(
        "intermediate_size ffn_dim n_inner decoder_ffn_dim encoder_ffn_dim d_ff ffn_hidden_size".split(), 128
    ),
    **dict.fromkeys("moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size".split(), 64),
    **dict.fromkeys("moe_shared_expert_intermediate_size shared_intermediate_size mlp_hidden_size".split(), 64),
    **dict.fromkeys("num_experts n_routed_experts num_local_experts moe_num_experts".split(), 8),
    **dict.fromkeys("num_experts_per_tok num_experts_per_token moe_topk moe_k top_k_experts".split(), 2),
    **dict.fromkeys("n_group topk_group n_shared_experts num_shared_experts moe_num_shared_experts".split(), 1),
    **dict.fromkeys("vocab_size vocab_size_per_layer_input padded_vocab_size".split(), 512),
    **dict.fromkeys(
        "max_position_embeddings n_positions n_ctx max_seq_len seq_length max_sequence_length".split(), 256
    ),
    **dict.fromkeys("q_lora_rank hidden_size_per_layer_input".split(), 32),
    **dict.fromkeys("kv_lora_rank state_size mamba_d_state ssm_state_size rotary_dim index_head_dim".split(), 16),
    **dict.fromkeys("qk_rope_head_dim mamba_d_head mamba_head_dim".split(), 8),
    **dict.fromkeys("mamba_n_heads mamba_num_heads".split(), 16),
    **dict.fromkeys("linear_key_head_dim linear_value_head_dim".split(), 16),
    **dict.fromkeys("linear_num_key_heads index_n_heads linear_num_value_heads".split(), 4),
    **dict.fromkeys("first_k_dense_replace num_dense_layers index_topk_freq".split(), 1),
    "qk_head_dim": 24,
    "sliding_window": 32,
    "index_topk": 16,
    "num_mem_blocks": 1,
    "time_step_rank": 8,
}
"Name of a size in configurations -> its small value. Names that a configuration does not have are left out."

LAYERS = frozenset("num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers".split())
SECTIONS = ("text_config", "decoder", "llm_config")


def tiny(section: Any) -> dict[str, Any]:
    """Return the arguments that make a configuration like `section` small."""
    small: dict[str, Any] = {}
    for name, value in section.to_dict().items():
        if name in SIZES and isinstance(value, int) and not isinstance(value, bool):
            small[name] = SIZES[name]
        elif name.endswith("_token_id") and isinstance(value, int) and value >= SIZES["vocab_size"]:
            small[name] = 1
        elif name == "is_decoder":
            # Without this argument, models that may also be encoders warn that they are not language models.
            small[name] = True
    for name in SECTIONS:
        inner = getattr(section, name, None)
        if inner is not None and hasattr(inner, "to_dict"):
            small[name] = tiny(inner)
    return small


def attempts(kind: Any) -> Iterator[dict[str, Any]]:
    """Yield arguments to try, the smallest first, because some model types require certain relations between sizes."""
    full = tiny(kind())
    yield full
    # In hybrid models, the first attention layer comes later, and its index is not given in a uniform way.
    yield {name: 8 if name in LAYERS else value for name, value in full.items()}
    heads = {"head_dim", "attention_head_dim", "d_kv", "v_head_dim", "num_key_value_heads", "qk_head_dim", "rotary_dim"}
    yield {name: value for name, value in full.items() if name not in heads}
    yield {name: value for name, value in full.items() if name in LAYERS or name in ("vocab_size", "num_experts")}


def build(model_type: str, device: Any) -> Any:
    """Return the smallest model of the type that can run a step. Raises RuntimeError with the last error if none
    can."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    kind = CONFIG_MAPPING[model_type]
    reason = ""
    for arguments in attempts(kind):
        try:
            torch.manual_seed(0)
            with torch.device(device):
                model = AutoModelForCausalLM.from_config(kind(**arguments)).to(device).eval()
            with torch.no_grad():
                model(input_ids=torch.arange(16, device=device).view(2, 8))
            return model
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
    raise RuntimeError(reason)
