"""Prompts are read in chunks of sixteen tokens; where the chunk begins, the scheduler's record of the request says."""
import dataclasses

import torch

import graphsafe

CHUNK = 16


@dataclasses.dataclass
class Prompt:
    length: int
    done: int = 0

    @property
    def finished(self):
        return self.done >= self.length


class Reader:
    def __init__(self, device):
        self.tokens = torch.zeros(64, 12, device=device)
        self.keys = torch.zeros(64, 12, device=device)
        self.project = torch.randn(12, 12, device=device) / 3
        self.prompt = Prompt(CHUNK)

    def schedule(self, k):
        """Short prompts for most of the time; one of three chunks now and then, first as the sixtieth."""
        self.prompt.done += CHUNK
        if self.prompt.finished:
            self.prompt = Prompt(3 * CHUNK if k % 60 == 59 else CHUNK)
            self.tokens.copy_(torch.randn(64, 12))
            self.keys.zero_()

    def step(self, scale):
        begin = self.prompt.done
        chunk = self.tokens[begin : begin + CHUNK] @ self.project * scale
        self.keys[begin : begin + CHUNK].copy_(chunk)
        weights = (chunk @ self.keys.T).softmax(-1)
        return weights @ self.keys


def build(device):
    reader = Reader(device)

    def refresh(args, kwargs, k):
        reader.schedule(k)
        args[0].copy_(torch.rand(1) + 0.5)

    return graphsafe.Step(reader.step, (torch.ones(1, device=device),), refresh=refresh)
