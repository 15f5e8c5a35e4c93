import torch
from torch import nn


class TopKGate(nn.Module):
    def __init__(self, dim, experts, k=2):
        super().__init__()
        self.k, self.experts = k, experts
        self.proj = nn.Linear(dim, experts, bias=False)

    def forward(self, x):
        score = self.proj(x).softmax(-1)
        weight, expert = score.topk(self.k, dim=-1)
        return weight / weight.sum(-1, keepdim=True), expert

    def sizes(self, expert):
        counts = torch.zeros(self.experts, dtype=torch.long, device=expert.device)
        counts.scatter_add_(0, expert.flatten(), torch.ones_like(expert.flatten()))
        return counts.tolist()
