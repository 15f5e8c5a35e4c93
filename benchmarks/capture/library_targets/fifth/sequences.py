"""Steps of performer_pytorch, iTransformer and point_transformer_pytorch."""

import torch
from torch import nn


def language_training(**options):
    def build(device):
        from performer_pytorch import PerformerLM

        model = PerformerLM(
            **{
                "num_tokens": 50,
                "max_seq_len": 32,
                "dim": 32,
                "depth": 2,
                "heads": 2,
                "dim_head": 16,
                "nb_features": 16,
                **options,
            }
        ).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(tokens):
            out = model(tokens)
            loss = nn.functional.cross_entropy(out[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, (torch.randint(0, 50, (2, 32), device=device),)

    return build


masked_performer_training = language_training(causal=False, feature_redraw_interval=2, use_scalenorm=True)
generalised_performer_training = language_training(
    generalized_attention=True, kernel_fn=nn.ReLU(), use_rezero=True, ff_glu=True, rotary_position_emb=True
)
reversible_performer_training = language_training(
    reversible=True, ff_chunks=2, local_attn_heads=1, local_window_size=8, shift_tokens=True
)


def masked_cross_attention(device):
    from performer_pytorch import CrossAttention, SelfAttention

    cross, own = (
        CrossAttention(32, heads=2, nb_features=16).to(device),
        SelfAttention(32, heads=2, no_projection=True, causal=False).to(device),
    )

    def step(x, context, mask):
        return cross(own(x, mask=mask), context=context, context_mask=mask[:, :10])

    return step, (
        torch.rand(2, 16, 32, device=device),
        torch.rand(2, 10, 32, device=device),
        torch.rand(2, 16, device=device) > 0.2,
    )


def redrawn_features(device):
    """Attention with new random features; a fixed projection."""
    from performer_pytorch import Performer

    model = Performer(
        dim=32,
        depth=1,
        heads=2,
        dim_head=16,
        nb_features=16,
        auto_check_redraw=True,
        feature_redraw_interval=1,
        ff_dropout=0.1,
    ).to(device)

    def step(x):
        model.proj_updater.redraw_projections() if hasattr(model, "proj_updater") else None
        out = model(x)
        out.square().mean().backward()
        model.fix_projection_matrices_()
        return out.detach()

    return step, (torch.rand(2, 16, 32, device=device),)


def generated_tokens(device):
    from performer_pytorch import PerformerLM
    from performer_pytorch.autoregressive_wrapper import AutoregressiveWrapper

    model = AutoregressiveWrapper(
        PerformerLM(num_tokens=50, max_seq_len=32, dim=32, depth=1, heads=2, dim_head=16, nb_features=16)
    ).to(device)

    def step(start):
        return model.generate(start, 6, temperature=0.8, eos_token=49, filter_thres=0.8)

    return step, (torch.randint(1, 49, (2, 4), device=device),)


def forecast_training(name, **options):
    def build(device):
        import iTransformer

        kw = {
            "num_variates": 5,
            "lookback_len": 24,
            "dim": 16,
            "depth": 1,
            "heads": 2,
            "dim_head": 8,
            "pred_length": (6, 12),
            **options,
        }
        model = getattr(iTransformer, name)(**kw).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(series, targets):
            loss = model(series, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                return loss.detach(), model.eval()(series), model.train()

        return step, (
            torch.rand(2, 24, 5, device=device),
            (torch.rand(2, 6, 5, device=device), torch.rand(2, 12, 5, device=device)),
        )

    return build


forecaster_training = forecast_training("iTransformer", num_tokens_per_variate=1, use_reversible_instance_norm=True)
tokens_forecaster_training = forecast_training("iTransformer", num_tokens_per_variate=2)
fourier_forecaster_training = forecast_training("iTransformerFFT", use_reversible_instance_norm=True)
two_ways_forecaster_training = forecast_training("iTransformer2D", num_time_tokens=4)


def point_attention_training(multihead, neighbours):
    def build(device):
        from point_transformer_pytorch import MultiheadPointTransformerLayer, PointTransformerLayer

        kw = {"dim": 16, "pos_mlp_hidden_dim": 16, "attn_mlp_hidden_mult": 2, "num_neighbors": neighbours}
        layer = (
            MultiheadPointTransformerLayer(heads=2, dim_head=8, **kw) if multihead else PointTransformerLayer(**kw)
        ).to(device)

        def step(features, positions, mask):
            out = layer(features, positions, mask=mask)
            out.square().mean().backward()
            return out.detach()

        return step, (
            torch.rand(2, 12, 16, device=device),
            torch.rand(2, 12, 3, device=device),
            torch.ones(2, 12, dtype=torch.bool, device=device),
        )

    return build


points_training = point_attention_training(False, 4)
all_points_training = point_attention_training(False, None)
heads_points_training = point_attention_training(True, 4)
