"""Steps of local_attention, reformer_pytorch and st_moe_pytorch: long sequences and experts."""

import torch
from torch import nn


def windowed_training(device):
    """Local attention under a mask, within a language model."""
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=32, dim=32, depth=2, max_seq_len=64, causal=True, local_attn_window_size=16, heads=2, dim_head=16
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(tokens):
        loss = model(tokens, return_loss=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(0, 32, (2, 64), device=device),)


def windowed_generation(device):
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=32,
        dim=32,
        depth=1,
        max_seq_len=64,
        causal=True,
        local_attn_window_size=8,
        heads=2,
        dim_head=16,
        use_xpos=True,
    ).to(device)

    def step(prompt):
        return model.generate(prompt, 4, temperature=0.8, filter_thres=0.9)

    return step, (torch.randint(0, 32, (1, 8), device=device),)


def masked_windows(device):
    """Local attention alone, padded, with a mask and its look forward."""
    from local_attention import LocalAttention

    attention = LocalAttention(
        dim=16, window_size=8, causal=False, look_backward=1, look_forward=1, autopad=True, exact_windowsize=True
    ).to(device)

    def step(q, k, v, mask):
        return attention(q, k, v, mask=mask)

    qkv = [torch.randn(2, 2, 30, 16, device=device) for _ in range(3)]
    return step, (*qkv, torch.rand(2, 30, device=device) > 0.1)


def hashed_training(device):
    """Attention within buckets of hashes, reversible layers."""
    from reformer_pytorch import ReformerLM

    model = ReformerLM(
        num_tokens=32, dim=32, depth=2, max_seq_len=64, heads=2, bucket_size=8, n_hashes=2, causal=True, ff_chunks=2
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(tokens):
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.transpose(1, 2)[..., :-1], tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randint(0, 32, (2, 64), device=device),)


def hashed_generation(device):
    """A few tokens after prompts, with a padded input."""
    from reformer_pytorch import ReformerLM
    from reformer_pytorch.generative_tools import TrainingWrapper

    model = ReformerLM(
        num_tokens=32,
        dim=32,
        depth=1,
        max_seq_len=64,
        heads=2,
        bucket_size=8,
        n_hashes=2,
        causal=True,
        n_local_attn_heads=1,
    )
    model = TrainingWrapper(model.to(device))

    def step(prompt):
        return model.generate(prompt, 3, temperature=1.0, filter_thres=0.9, eos_token=0)

    return step, (torch.randint(1, 32, (2, 8), device=device),)


def hashed_attention(device):
    """An encoder's layer with a mask, hashes drawn again, shared between heads."""
    from reformer_pytorch import LSHSelfAttention

    layer = LSHSelfAttention(
        dim=32, heads=2, bucket_size=8, n_hashes=4, causal=False, attn_chunks=2, return_attn=False, num_mem_kv=0
    ).to(device)

    def step(x, mask):
        return layer(x, input_mask=mask)

    return step, (torch.randn(2, 64, 32, device=device), torch.rand(2, 64, device=device) > 0.1)


def experts_training(device):
    """A mixture of experts with losses of balance."""
    from st_moe_pytorch import MoE, SparseMoEBlock

    moe = MoE(
        dim=32,
        num_experts=4,
        gating_top_n=2,
        threshold_train=0.2,
        threshold_eval=0.2,
        capacity_factor_train=1.25,
        balance_loss_coef=1e-2,
        router_z_loss_coef=1e-3,
    )
    model = SparseMoEBlock(moe, add_ff_before=True, add_ff_after=True).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        out, auxiliary, *_ = model(x)
        loss = out.square().mean() + auxiliary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(2, 32, 32, device=device),)


def experts_inference(device):
    from st_moe_pytorch import MoE

    moe = MoE(dim=32, num_experts=4, gating_top_n=2, differentiable_topk=False).to(device).eval()

    @torch.no_grad()
    def step(x):
        return moe(x).outputs

    return step, (torch.randn(2, 32, 32, device=device),)


def experts_apart(device):
    """Expert networks that get their own tokens, as a server calls them."""
    from st_moe_pytorch.st_moe_pytorch import Expert, Experts, TopNGating

    gate = TopNGating(dim=32, num_gates=4, top_n=2).to(device)
    experts = Experts([Expert(dim=32) for _ in range(4)]).to(device)

    def step(x):
        dispatch, combine, balance, z = gate(x, noise_gates=True, noise_mult=0.5)
        inputs = torch.einsum("b n d, b n e c -> b e c d", x, dispatch)
        return torch.einsum("b e c d, b n e c -> b n d", experts(inputs), combine), balance, z

    return step, (torch.randn(2, 32, 32, device=device),)
