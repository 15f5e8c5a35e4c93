"""Beam search: hypotheses and caches are reordered by the surviving parents, each in its own memory."""

import torch

import graphsafe


class Beams:
    def __init__(self, device, beams=4, vocab=24, room=32, width=8):
        self.score = torch.zeros(beams, device=device)
        self.score[1:] = -5.0
        self.text = torch.zeros(beams, room, dtype=torch.long, device=device)
        self.memory = torch.randn(beams, width, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.embed = torch.randn(vocab, width, device=device)
        self.vocab, self.room = vocab, room

    def step(self, bias):
        logp = (self.memory @ self.embed.T + bias).log_softmax(-1)
        self.score[:], flat = (self.score[:, None] + logp).flatten().topk(len(self.score))
        parent, token = flat // self.vocab, flat % self.vocab
        self.text.copy_(self.text[parent])
        self.memory.copy_(torch.tanh(0.5 * self.memory[parent] + self.embed[token]))
        self.text.index_copy_(1, self.position, token[:, None])
        self.position.add_(1).remainder_(self.room)
        self.score -= self.score.amax()
        return self.text, self.score.clone()


def build(device):
    beams = Beams(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(24))

    return graphsafe.Step(beams.step, (torch.randn(24, device=device),), refresh=refresh)
