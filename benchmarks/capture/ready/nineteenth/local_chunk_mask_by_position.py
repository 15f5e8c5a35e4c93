"""Chunked local attention in decoding, as in Llama 4: sound, the chunk is computed from the device position."""
import torch

import graphsafe

CHUNK, SLOTS = 16, 80


class Decoder:
    position = 0


def chunk_mask(position, slots):
    return slots // CHUNK == position // CHUNK


def build(device, dim=8):
    Decoder.position = 0
    keys, values = torch.zeros(SLOTS, dim, device=device), torch.zeros(SLOTS, dim, device=device)
    wk, wv = torch.randn(2, dim, dim, device=device) / dim**0.5
    slots = torch.arange(SLOTS, device=device)

    def step(x, position):
        keys.index_copy_(0, position, x @ wk)
        values.index_copy_(0, position, x @ wv)
        visible = chunk_mask(position, slots) & (slots <= position)
        scores = (x @ keys.T).masked_fill(~visible, -1e9)
        return torch.softmax(scores, -1) @ values

    def refresh(args, kwargs, k):
        Decoder.position = (k + 1) % SLOTS
        args[0].copy_(torch.randn(1, dim))
        args[1].fill_(Decoder.position)

    position = torch.zeros(1, dtype=torch.long, device=device)
    return graphsafe.Step(step, (torch.randn(1, dim, device=device), position), refresh=refresh)
