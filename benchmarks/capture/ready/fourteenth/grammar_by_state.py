"""Decoding under a grammar: the automaton's state picks one of the masks that were compiled for it."""
import torch

import graphsafe

FREE, KEY, VALUE, END = range(4)


class Automaton:
    """Free text, until an opening bracket is sampled; then keys and values in turn, until the text closes again."""

    def __init__(self, opening):
        self.state, self.opening, self.inside = FREE, opening, 0

    def feed(self, token, k):
        if self.state == FREE and token == self.opening and k > 60:
            self.state = KEY
        elif self.state in (KEY, VALUE):
            self.inside += 1
            self.state = END if self.inside % 7 == 0 else KEY + VALUE - self.state
        elif self.state == END:
            self.state = FREE


class Decoder:
    def __init__(self, device, vocab=48):
        token = torch.arange(vocab, device=device)
        self.masks = [token >= 0, token < 20, (token >= 20) & (token < 40), token >= 40]
        self.automaton = Automaton(opening=5)
        self.head = torch.randn(16, vocab, device=device)

    def step(self, hidden):
        logits = hidden @ self.head
        allowed = self.masks[self.automaton.state]
        return logits.masked_fill(~allowed, float("-inf")).softmax(-1)


def build(device):
    decoder = Decoder(device)

    def refresh(args, kwargs, k):
        hidden = torch.randn(2, 16)
        decoder.automaton.feed((k * 29 + 11) % 48, k)
        args[0].copy_(hidden)

    return graphsafe.Step(decoder.step, (torch.randn(2, 16, device=device),), refresh=refresh)
