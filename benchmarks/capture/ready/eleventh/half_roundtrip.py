"""An offload event stores the weights in half precision and brings them back."""
import torch
from torch import nn

import graphsafe


class Engine:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32)).to(device).eval()

    @torch.inference_mode()
    def forward(self, x):
        return self.model(x)

    def offload_and_restore(self):
        self.model.half()
        self.model.float()


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32) * 50)

    return graphsafe.Step(
        engine.forward, (torch.randn(4, 32, device=device),), refresh=refresh, events={"offload": engine.offload_and_restore}
    )
