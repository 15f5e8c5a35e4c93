"""Steps of x-transformers: language models, encoders, images and continuous sequences."""

import torch
from torch import nn


def language_model(device, **options):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **options)
    return TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers).to(device)


def tokens(device, batch=2, length=16):
    return torch.randint(0, 64, (batch, length), device=device)


def next_token_training(device):
    from x_transformers import AutoregressiveWrapper

    model = AutoregressiveWrapper(language_model(device, rotary_pos_emb=True, attn_flash=True), mask_prob=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        loss = model(x)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (tokens(device, length=17),)


def generation(device):
    """Eight tokens after a prompt, sampled from the likeliest."""
    from x_transformers import AutoregressiveWrapper

    model = AutoregressiveWrapper(language_model(device, rotary_xpos=True)).eval()

    def step(prompt):
        return model.generate(prompt, 8, eos_token=2, filter_logits_fn="top_p", cache_kv=True)

    return step, (tokens(device),)


def masked_encoder(device):
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(dim=32, depth=2, heads=2, attn_dim_head=16, alibi_pos_bias=True, ff_glu=True)
    model = TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers, num_memory_tokens=2)
    model = model.to(device).eval()

    @torch.no_grad()
    def step(x, mask):
        return model(x, mask=mask, return_embeddings=True)

    return step, (tokens(device), torch.arange(16, device=device) < torch.tensor([[16], [11]], device=device))


def image_classifier(device):
    from x_transformers import Encoder, ViTransformerWrapper

    model = ViTransformerWrapper(
        image_size=32, patch_size=8, num_classes=10, attn_layers=Encoder(dim=32, depth=2, heads=2, attn_dim_head=16)
    )
    model = model.to(device).eval()

    @torch.no_grad()
    def step(x):
        return model(x)

    return step, (torch.randn(2, 3, 32, 32, device=device),)


def recurrent_memory_training(device):
    """Long texts in segments, each with the memories of the one before."""
    from x_transformers import Decoder, TransformerWrapper, XLAutoregressiveWrapper

    layers = Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, rel_pos_bias=True)
    model = TransformerWrapper(num_tokens=64, max_seq_len=16, max_mem_len=16, attn_layers=layers)
    model = XLAutoregressiveWrapper(model).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        loss = model(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (tokens(device, length=33),)


def translation_training(device):
    from x_transformers import XTransformer

    model = XTransformer(
        dim=32,
        enc_num_tokens=64,
        enc_depth=1,
        enc_heads=2,
        enc_max_seq_len=16,
        dec_num_tokens=64,
        dec_depth=1,
        dec_heads=2,
        dec_max_seq_len=16,
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(source, target, mask):
        loss = model(source, target, mask=mask)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (tokens(device), tokens(device), torch.ones(2, 16, dtype=torch.bool, device=device))


def masked_tokens_training(device):
    """Tokens filled in in any order."""
    from x_transformers import Encoder, NonAutoregressiveWrapper, TransformerWrapper

    net = TransformerWrapper(
        num_tokens=65, max_seq_len=16, attn_layers=Encoder(dim=32, depth=2, heads=2, attn_dim_head=16)
    )
    model = NonAutoregressiveWrapper(net, mask_id=64).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        loss = model(x).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (tokens(device),)


def forecast_training(device):
    from x_transformers import ContinuousAutoregressiveWrapper, ContinuousTransformerWrapper, Decoder

    net = ContinuousTransformerWrapper(
        dim_in=4, dim_out=4, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=2, attn_dim_head=16)
    )
    model = ContinuousAutoregressiveWrapper(net).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(series, lengths):
        loss = model(series, lens=lengths)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, (torch.randn(2, 17, 4, device=device), torch.tensor([17, 12], device=device))
