"""Decoding under grammars: automata on the host follow the sampled tokens, and their masks are copied into a static one."""
import torch

import graphsafe

FREE, KEY, VALUE, END = range(4)


class Automaton:
    def __init__(self):
        self.state, self.inside = FREE, 0

    def feed(self, token):
        if self.state == FREE:
            self.state = KEY if token < 12 else FREE
        elif self.state in (KEY, VALUE):
            self.inside += 1
            self.state = END if self.inside % 7 == 0 else KEY + VALUE - self.state
        else:
            self.state = FREE


class Decoder:
    def __init__(self, device, rows=2, vocab=48):
        token = torch.arange(vocab)
        self.masks = [token >= 0, token < 20, (token >= 20) & (token < 40), token >= 40]
        self.automata = [Automaton() for _ in range(rows)]
        self.allowed = torch.ones(rows, vocab, dtype=torch.bool, device=device)
        self.sampled = torch.zeros(rows, dtype=torch.long, device=device)
        self.head = torch.randn(16, vocab, device=device)
        self.forced = 0

    def follow(self):
        for automaton, token in zip(self.automata, self.sampled.tolist()):
            automaton.feed(token)
        self.allowed.copy_(torch.stack([self.masks[a.state] for a in self.automata]))

    def step(self, hidden):
        if any(a.state != FREE for a in self.automata):
            self.forced += 1
        logits = (hidden @ self.head).masked_fill(~self.allowed, float("-inf"))
        self.sampled.copy_(torch.multinomial(logits.softmax(-1), 1)[:, 0])
        return self.sampled, logits.logsumexp(-1)


def build(device):
    decoder = Decoder(device)

    def refresh(args, kwargs, k):
        decoder.follow()
        args[0].copy_(torch.randn(2, 16))

    return graphsafe.Step(decoder.step, (torch.randn(2, 16, device=device),), refresh=refresh)
