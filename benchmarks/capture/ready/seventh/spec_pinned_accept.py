"""Speculative decode: the number of accepted draft tokens of the last step decides how much context is rolled."""
import torch
from torch import nn


class Verifier(nn.Module):
    def __init__(self, vocab=97, dim=32, draft=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("context", torch.zeros(8, dim))


class Engine:
    def __init__(self, device):
        torch.manual_seed(0)
        self.model = Verifier().to(device).eval().requires_grad_(False)
        self.accepted = torch.zeros(1, dtype=torch.int64, pin_memory=torch.cuda.is_available())
        self.accepted_view = self.accepted.numpy()  # the scheduler polls it without a call into torch

    def step(self, draft):
        model = self.model
        if self.accepted_view[0] >= 1:  # LINE: host reads what the device wrote last step
            model.context.mul_(0.5)
        hidden = torch.tanh(model.mix(model.embed(draft) + model.context.mean(0)))
        logits = model.head(hidden)
        target = logits.argmax(-1)
        match = (target[:, :-1] == draft[:, 1:]).long().cumprod(-1)
        count = match.sum(-1).amax().view(1)
        model.context.add_(hidden.mean((0, 1)))
        self.accepted.copy_(count, non_blocking=True)
        return logits


def vary(args, kwargs, k):  # real drafts come from a model that agrees with the verifier often
    engine = vary.engine
    draft = torch.randint(0, 97, (2, 4)).to(args[0].device)
    for i in range(3):
        hidden = torch.tanh(engine.model.mix(engine.model.embed(draft) + engine.model.context.mean(0)))
        guess = engine.model.head(hidden).argmax(-1)
        if k % 3:
            draft[:, i + 1] = guess[:, i]
    args[0].copy_(draft)
    torch.cuda.synchronize()


def build(device):
    engine = Engine(device)
    vary.engine = engine
    generator = torch.Generator().manual_seed(5)
    draft = torch.randint(0, 97, (2, 4), generator=generator).to(device)
    return engine.step, (draft,)
