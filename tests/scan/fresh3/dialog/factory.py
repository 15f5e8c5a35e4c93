import torch
from torch import nn

from .blocks import Layer

REGISTRY = {}


def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls

    return wrap


@register("dialog-tiny")
class DialogModel(nn.Module):
    def __init__(self, dim=16, depth=2, vocab=40):
        super().__init__()
        self.stats = {"calls": 0}
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, self.stats) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    @classmethod
    def from_config(cls, config):
        return cls(**{k: v for k, v in config.items() if k != "name"})

    def forward(self, tokens, position):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, position)
        return self.head(x)


def build(device):
    config = {"name": "dialog-tiny", "depth": 2}
    model = REGISTRY[config["name"]].from_config(config).to(device).requires_grad_(False)
    tokens = torch.randint(0, 40, (5,), device=device)
    position = torch.tensor([0.0, 4.0, 1.0, 9.0, 3.0], device=device)
    return model, (tokens, position)
