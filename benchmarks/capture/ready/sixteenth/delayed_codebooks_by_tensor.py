"""A speech model with delayed codebooks: offset and delays are tensors, and the step compares them on the device."""
import torch

import graphsafe

PAD = 16


class Speech:
    def __init__(self, device, codebooks=4, dim=8):
        self.embed = torch.randn(codebooks, PAD + 1, dim, device=device)
        self.heads = torch.randn(codebooks, dim, PAD, device=device)
        self.cache = torch.full((codebooks,), PAD, device=device)
        self.state = torch.zeros(dim, device=device)
        self.delays = torch.tensor([0, 0, 1, 2], device=device)
        self.offset = torch.zeros(1, dtype=torch.long, device=device)

    def new_utterance(self):
        self.offset.zero_()
        self.cache.fill_(PAD)
        self.state.zero_()

    def step(self, voice):
        books = torch.arange(len(self.cache), device=voice.device)
        self.state.copy_(torch.tanh(0.6 * self.state + self.embed[books, self.cache].mean(0) + voice))
        tokens = torch.einsum("d,kdv->kv", self.state, self.heads).argmax(-1)
        tokens = torch.where(self.offset < self.delays, PAD, tokens)
        self.offset.add_(1)
        self.cache.copy_(tokens)
        return tokens, self.state.clone()


def build(device):
    speech = Speech(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8))
        if k % 30 == 26:
            speech.new_utterance()

    return graphsafe.Step(speech.step, (torch.randn(8, device=device),), refresh=refresh)
