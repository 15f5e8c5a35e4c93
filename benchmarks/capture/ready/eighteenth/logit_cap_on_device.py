"""A sampler caps its logits ever more tightly: sound, the cap is computed from a count on the device."""
import torch
from torch import nn


class CappedHead(nn.Module):
    def __init__(self, dim=16, words=50):
        super().__init__()
        self.head = nn.Linear(dim, words)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, hidden):
        self.calls.add_(1)
        cap = (20.0 - 0.25 * self.calls).clamp(min=1.0)
        return torch.log_softmax(torch.minimum(torch.maximum(self.head(hidden), -cap), cap), -1)


def build(device):
    head = CappedHead().to(device).requires_grad_(False)
    return head, (torch.randn(4, 16, device=device) * 4,)
