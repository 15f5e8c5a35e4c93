"""Prompt-to-prompt editing with an attention controller: faulty, attention is replaced until a host step."""
import torch

import graphsafe


class AttentionControl:
    layers = 2

    def __init__(self, device, until=26):
        self.cur_step = 0
        self.cur_layer = 0
        self.until = until

    def __call__(self, attention):
        source, edited = attention
        if self.cur_step < self.until:
            edited = source
        self.cur_layer += 1
        if self.cur_layer == self.layers:
            self.cur_layer = 0
            self.cur_step = min(self.cur_step + 1, 49)
        return torch.stack([source, edited])

    def new_image(self):
        self.cur_step = 0


def build(device, dim=6, words=5):
    control = AttentionControl(device)
    prompts = torch.randn(2, words, dim, device=device)
    queries = [torch.randn(dim, dim, device=device) for _ in range(AttentionControl.layers)]

    def step(latents):
        for query in queries:
            attention = torch.softmax(latents @ query @ prompts.mT / dim**0.5, -1)
            latents = latents + 0.2 * control(attention) @ prompts
        return latents

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 4, dim))
        if k % 45 == 0:
            control.new_image()

    return graphsafe.Step(step, (torch.randn(2, 4, dim, device=device),), refresh=refresh)
