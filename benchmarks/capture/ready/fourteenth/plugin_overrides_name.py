"""Activations are found by name in a registry; a plugin that is loaded later registers a better one under the same name."""
import importlib.machinery
import importlib.util
import textwrap

import torch
from torch import nn

import graphsafe

REGISTRY = {}


def register(name):
    def put(function):
        REGISTRY[name] = function
        return function

    return put


@register("gelu")
def gelu(x):
    return nn.functional.gelu(x, approximate="tanh")


@register("relu2")
def relu2(x):
    return torch.relu(x).square()


class Block(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(16, 32), nn.Linear(32, 16), activation

    def forward(self, x):
        return x + self.down(REGISTRY[self.activation](self.up(x)))


PLUGIN = """
    def load(register):
        import torch
        @register("gelu")
        def quick(x):
            return x * torch.sigmoid(1.702 * x)
"""


def load_plugins():
    spec = importlib.machinery.ModuleSpec("quick_plugin", None)
    module = importlib.util.module_from_spec(spec)
    exec(textwrap.dedent(PLUGIN), module.__dict__)
    module.load(register)


def build(device):
    model = nn.Sequential(Block("gelu"), Block("relu2"), Block("gelu")).to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        if k == 101:
            load_plugins()
        args[0].copy_(torch.randn(4, 16) * 2)

    return graphsafe.Step(model, (torch.randn(4, 16, device=device),), refresh=refresh)
