import torch
from torch import nn

from .blocks import Layer
from .positions import Rotary

REGISTRY = {}


def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls

    return wrap


@register("assistant-tiny")
class Assistant(nn.Module):
    def __init__(self, dim=16, depth=2, vocab=40, tokens=5, keep=0.9):
        super().__init__()
        rotary = Rotary(dim)
        rotary.extend(tokens)
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, rotary, keep, tokens) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)
        self.traces = []

    @classmethod
    def from_config(cls, config):
        return cls(**{k: v for k, v in config.items() if k != "name"})

    def forward(self, tokens, position):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, position)
        return self.head(x)

    def statistics(self):
        self.traces.append([layer.depth.calls.item() for layer in self.layers])
        return self.traces[-1]


def save(model, path):
    torch.save({k: v.cpu() for k, v in model.state_dict().items()}, path)


def build(device):
    torch.manual_seed(3)
    config = {"name": "assistant-tiny", "depth": 2}
    model = REGISTRY[config["name"]].from_config(config).to(device).train().requires_grad_(False)
    tokens = torch.randint(0, 40, (5,), device=device)
    position = torch.tensor([0, 4, 1, 9, 3], device=device)
    return model, (tokens, position)
