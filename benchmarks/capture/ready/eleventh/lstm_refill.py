"""A recognizer changes the speaker by copying into its LSTM's flat weights."""
import torch
from torch import nn

import graphsafe


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)

    @torch.no_grad()
    def select(self, i):
        w = self.rnn.weight_hh_l0
        w.copy_(torch.randn(w.shape) / (4 + i))

    @torch.no_grad()
    def forward(self, x):
        out, (h, c) = self.rnn(x)
        return out, h


def build(device):
    net = Recognizer().to(device).eval()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 10, 8))
        if k % 40 == 39:
            net.select(k // 40 % 3)

    return graphsafe.Step(net.forward, (torch.randn(2, 10, 8, device=device),), refresh=refresh)
