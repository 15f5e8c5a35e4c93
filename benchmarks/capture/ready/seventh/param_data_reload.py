"""RL rollout worker: new weights arrive now and then and are put in place with `.data =`."""
import torch
from torch import nn

import graphsafe


class Rollout:
    def __init__(self, device):
        torch.manual_seed(14)
        self.device = device
        self.embed = nn.Embedding(30, 16).to(device)
        self.head = nn.Linear(16, 30, bias=False).to(device)
        self.head.weight = self.embed.weight  # tied
        self.embed.requires_grad_(False)

    def step(self, ids):
        return self.head(self.embed(ids).mean(1))  # LINE: reads the memory that the weight had at capture

    def receive(self, state):
        for name, tensor in state.items():
            self.embed.get_parameter(name).data = tensor.to(self.device)


def build(device):
    rollout = Rollout(device)
    ids = torch.randint(0, 30, (3, 5), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 30, (3, 5)))
        if k % 16 == 15:
            rollout.receive({"weight": torch.randn(30, 16)})

    return graphsafe.Step(rollout.step, (ids,), refresh=refresh)
