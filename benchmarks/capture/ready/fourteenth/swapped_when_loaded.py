"""Checkpoints are loaded with torch.__future__'s swapping of parameters on: objects are swapped, their memory is kept."""
import torch
from torch import nn

import graphsafe


class Watcher:
    """Looks for a new checkpoint between steps."""

    def __init__(self, model):
        self.model = model
        self.version = 0

    def poll(self, k):
        if k % 35 != 34:
            return
        self.version += 1
        g = torch.Generator().manual_seed(self.version)
        state = {n: torch.randn(t.shape, generator=g) * 0.3 for n, t in self.model.state_dict().items()}
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            self.model.load_state_dict(state)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)


def build(device):
    model = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 10)).to(device).requires_grad_(False)
    watcher = Watcher(model)

    def refresh(args, kwargs, k):
        watcher.poll(k)
        args[0].copy_(torch.randn(5, 10))

    return graphsafe.Step(model, (torch.randn(5, 10, device=device),), refresh=refresh)
