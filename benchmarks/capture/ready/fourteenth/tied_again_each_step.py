"""A wrapper ties input and output embeddings anew before each step, with the parameter that they have anyway."""
import torch
from torch import nn

import graphsafe


class Tied(nn.Module):
    def __init__(self, vocab=40, size=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, size)
        self.mix = nn.Linear(size, size)
        self.out = nn.Linear(size, vocab, bias=False)
        self.tie()

    def tie(self):
        del self.out.weight
        self.out.register_parameter("weight", self.embed.weight)

    def forward(self, tokens):
        return self.out(torch.tanh(self.mix(self.embed(tokens))))


class Run:
    def __init__(self, device):
        self.model = Tied().to(device).requires_grad_(False)

    def update(self, k):
        g = torch.Generator().manual_seed(k)
        rows = torch.randint(40, (6,), generator=g).to(self.model.embed.weight.device)
        self.model.embed.weight.index_fill_(0, rows, 0.1 * (k % 7 - 3))
        self.model.tie()

    def resume(self):
        state = {n: t.clone() for n, t in self.model.state_dict().items()}
        state["embed.weight"] = state["out.weight"] = state["embed.weight"].flip(0)
        self.model.load_state_dict(state)
        self.model.tie()


def build(device):
    run = Run(device)
    tokens = torch.randint(40, (3, 8), device=device)

    def refresh(args, kwargs, k):
        run.update(k)
        args[0].copy_(torch.randint(40, (3, 8)))

    return graphsafe.Step(run.model, (tokens,), refresh=refresh, events={"resume": run.resume})
