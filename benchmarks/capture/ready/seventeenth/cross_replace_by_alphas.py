"""Prompt-to-prompt editing with an attention controller: sound, a device table says when attention is replaced."""
import torch

import graphsafe


class AttentionControl:
    layers = 2

    def __init__(self, device, until=26):
        self.cur_step = torch.zeros(1, dtype=torch.long, device=device)
        self.cur_layer = 0
        self.alphas = (torch.arange(50, device=device) < until).float()

    def __call__(self, attention):
        source, edited = attention
        alpha = self.alphas.index_select(0, self.cur_step)
        edited = alpha * source + (1 - alpha) * edited
        self.cur_layer += 1
        if self.cur_layer == self.layers:
            self.cur_layer = 0
            self.cur_step.add_(1).clamp_(max=49)
        return torch.stack([source, edited])

    def new_image(self):
        self.cur_step.zero_()


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
