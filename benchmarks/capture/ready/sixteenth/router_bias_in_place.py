"""MoE routing balanced without a loss: the bias of each expert is an entry of a device tensor."""
import torch

import graphsafe


class Router:
    def __init__(self, device, dim=8, experts=5, rate=0.02):
        self.weight = torch.randn(dim, experts, device=device) / dim**0.5
        self.up = torch.randn(experts, dim, dim, device=device) / dim**0.5
        self.load = torch.zeros(experts, device=device)
        self.bias = torch.zeros(experts, device=device)
        self.rate = rate

    def forward(self, x):
        scores = torch.sigmoid(x @ self.weight)
        biased = scores + self.bias
        chosen = biased.topk(2, -1).indices
        gates = torch.zeros_like(scores).scatter(1, chosen, scores.gather(1, chosen))
        self.load.add_((gates > 0).sum(0))
        gates = gates / gates.sum(-1, keepdim=True)
        return torch.einsum("td,edf,te->tf", x, self.up, gates)

    def balance(self):
        loads = self.load.tolist()
        mean = sum(loads) / len(loads)
        self.bias.add_(torch.tensor([self.rate if load < mean else -self.rate for load in loads]).to(self.bias))
        self.load.zero_()


def build(device):
    router = Router(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 8) + 0.5)
        if k % 8 == 7:
            router.balance()

    return graphsafe.Step(router.forward, (torch.randn(6, 8, device=device),), refresh=refresh)
