"""A speech model with delayed codebooks: the step compares the host's offset of the utterance with the delays."""
import torch

import graphsafe

PAD = 16


class Speech:
    def __init__(self, device, codebooks=4, dim=8):
        self.embed = torch.randn(codebooks, PAD + 1, dim, device=device)
        self.heads = torch.randn(codebooks, dim, PAD, device=device)
        self.cache = torch.full((codebooks,), PAD, device=device)
        self.state = torch.zeros(dim, device=device)
        self.delays = [0, 0, 1, 2]
        self.offset = 0

    def new_utterance(self):
        self.offset = 0
        self.cache.fill_(PAD)
        self.state.zero_()

    def step(self, voice):
        books = torch.arange(len(self.cache), device=voice.device)
        self.state.copy_(torch.tanh(0.6 * self.state + self.embed[books, self.cache].mean(0) + voice))
        tokens = torch.einsum("d,kdv->kv", self.state, self.heads).argmax(-1)
        for book, delay in enumerate(self.delays):
            if self.offset < delay:
                tokens[book].fill_(PAD)
        self.offset += 1
        self.cache.copy_(tokens)
        return tokens, self.state.clone()


def build(device):
    speech = Speech(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8))
        if k % 30 == 26:
            speech.new_utterance()

    return graphsafe.Step(speech.step, (torch.randn(8, device=device),), refresh=refresh)
