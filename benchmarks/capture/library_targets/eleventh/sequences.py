"""Steps of networks: linear_attention_transformer, routing_transformer, sinkhorn_transformer, product_key_memory,
taylor_series_linear_attention, gateloop_transformer, h_transformer_1d, compressive_transformer_pytorch,
axial_attention, isab_pytorch and invariant_point_attention."""

import torch
from torch import nn


def _update(model, loss_of, lr=1e-3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def step(*args):
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def _inference(model):
    model.eval()

    def step(*args):
        with torch.no_grad():
            return model(*args)

    return step


def _tokens(device, length=32):
    return (torch.randint(0, 100, (2, length), device=device),)


def _likelihood(logits, tokens):
    return nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:])


def linear_training(device):
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(
        num_tokens=100,
        dim=32,
        heads=2,
        depth=2,
        max_seq_len=32,
        causal=True,
        blindspot_size=8,
        n_local_attn_heads=1,
        local_attn_window_size=8,
    ).to(device)
    return _update(model, lambda t: _likelihood(model(t), t)), _tokens(device)


def linear_inference(device):
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(num_tokens=100, dim=32, heads=2, depth=2, max_seq_len=32).to(device)
    return _inference(model), _tokens(device)


def routing_training(device):
    from routing_transformer import RoutingTransformerLM

    model = RoutingTransformerLM(
        num_tokens=100, dim=32, heads=2, depth=2, max_seq_len=32, causal=True, window_size=8, n_local_attn_heads=1
    ).to(device)

    def loss_of(tokens):
        logits, aux = model(tokens)
        return _likelihood(logits, tokens) + aux.sum()

    return _update(model, loss_of), _tokens(device)


def sinkhorn_training(device):
    from sinkhorn_transformer import SinkhornTransformerLM

    model = SinkhornTransformerLM(
        num_tokens=100, dim=32, heads=2, depth=2, max_seq_len=32, bucket_size=8, causal=True
    ).to(device)
    return _update(model, lambda t: _likelihood(model(t), t)), _tokens(device)


def sinkhorn_inference(device):
    from sinkhorn_transformer import SinkhornTransformerLM

    model = SinkhornTransformerLM(num_tokens=100, dim=32, heads=2, depth=2, max_seq_len=32, bucket_size=8).to(device)
    return _inference(model), _tokens(device)


def keys_training(device):
    from product_key_memory import PKM

    model = PKM(dim=32, heads=2, num_keys=16, topk=4, dim_head=16).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 16, 32, device=device),)


def taylor_training(device):
    from taylor_series_linear_attention import TaylorSeriesLinearAttn

    model = TaylorSeriesLinearAttn(dim=32, dim_head=8, heads=2).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 16, 32, device=device),)


def gateloop_training(device):
    from gateloop_transformer import SimpleGateLoopLayer

    model = SimpleGateLoopLayer(32).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 16, 32, device=device),)


def gateloop_language(device):
    from gateloop_transformer import Transformer

    model = Transformer(num_tokens=100, dim=32, depth=2, use_gate_looped_attn=True).to(device)
    return _inference(model), _tokens(device)


def hierarchy_training(device):
    from h_transformer_1d import HTransformer1D

    model = HTransformer1D(
        num_tokens=100, dim=32, depth=2, causal=False, max_seq_len=32, heads=2, dim_head=16, block_size=8
    ).to(device)
    return _update(model, lambda t: _likelihood(model(t), t)), _tokens(device)


def compressive_training(device):
    from compressive_transformer_pytorch import CompressiveTransformer

    model = CompressiveTransformer(
        num_tokens=100, dim=32, depth=2, seq_len=16, mem_len=16, cmem_len=4, cmem_ratio=4, heads=2, memory_layers=[2]
    ).to(device)

    def loss_of(tokens):
        logits, memories, aux = model(tokens[:, :16])
        second, _, more = model(tokens[:, 16:], memories=memories)
        return _likelihood(torch.cat([logits, second], dim=1), tokens) + aux + more

    return _update(model, loss_of), _tokens(device)


def axial_training(device):
    from axial_attention import AxialAttention

    model = AxialAttention(dim=16, dim_index=1, heads=2, num_dimensions=2, sum_axial_out=True).to(device)
    return _update(model, lambda x: model(x).square().mean()), (torch.randn(2, 16, 8, 8, device=device),)


def inducing_training(device):
    from isab_pytorch import ISAB

    model = ISAB(dim=32, heads=2, num_latents=8).to(device)
    mask = torch.ones(2, 20, dtype=torch.bool, device=device)

    def loss_of(x):
        out, latents = model(x, mask=mask)
        return out.square().mean() + latents.square().mean()

    return _update(model, loss_of), (torch.randn(2, 20, 32, device=device),)


def _table(device):
    return torch.randint(0, 5, (8, 3), device=device), torch.randn(8, 4, device=device)


def points_training(device):
    from invariant_point_attention import IPABlock

    model = IPABlock(dim=32, heads=2, require_pairwise_repr=False).to(device)

    def loss_of(x, rotations, translations):
        return model(x, rotations=rotations, translations=translations).square().mean()

    rotations = torch.eye(3, device=device).expand(1, 10, 3, 3).contiguous()
    return _update(model, loss_of), (
        torch.randn(1, 10, 32, device=device),
        rotations,
        torch.randn(1, 10, 3, device=device),
    )
