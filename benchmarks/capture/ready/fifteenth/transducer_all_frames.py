"""Greedy transducer decoding whose graph loops over all frames; an eager step may stop early, with the same result."""
import torch

import graphsafe


class Joint:
    def __init__(self, device, dim=8, vocab=6):
        self.embed = torch.randn(vocab, dim, device=device)
        self.out = torch.randn(dim, vocab, device=device)
        self.rec = torch.randn(dim, dim, device=device) / 3

    def __call__(self, frame, label, hidden):
        state = torch.tanh(hidden @ self.rec + self.embed.index_select(0, label))
        return (torch.tanh(frame + state) @ self.out).argmax(-1), state


class Decoder:
    BLANK = 0

    def __init__(self, device, batch=3, frames=12, dim=8):
        self.joint = Joint(device)
        self.lengths = torch.full((batch,), frames, dtype=torch.long, device=device)
        self.max_time = frames
        self.labels = torch.zeros(batch, frames, dtype=torch.long, device=device)
        self.hidden = torch.zeros(batch, dim, device=device)
        self.last = torch.zeros(batch, dtype=torch.long, device=device)

    def set_lengths(self, lengths):
        self.lengths.copy_(torch.tensor(lengths))
        self.max_time = max(lengths)

    def step(self, encoded):
        self.labels.zero_()
        self.hidden.zero_()
        self.last.zero_()
        for t in range(self.max_time):
            label, state = self.joint(encoded[:, t], self.last, self.hidden)
            emit = (label != self.BLANK) & (t < self.lengths)
            self.last.copy_(torch.where(emit, label, self.last))
            self.hidden.copy_(torch.where(emit.unsqueeze(1), state, self.hidden))
            self.labels[:, t].copy_(torch.where(emit, label, torch.zeros_like(label)))
        return self.labels + 0, self.hidden + 0


def build(device):
    decoder = Decoder(device)

    def refresh(args, kwargs, k):
        decoder.set_lengths([6, 3 + k % 4, 9 if k % 10 == 0 else 2])
        args[0].copy_(torch.randn(3, 12, 8))

    return graphsafe.Step(decoder.step, (torch.randn(3, 12, 8, device=device),), refresh=refresh)
