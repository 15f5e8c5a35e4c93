"""A recognizer changes the speaker by giving its LSTM another recurrent weight."""
import torch
from torch import nn

import graphsafe


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.speakers = [nn.Parameter(torch.randn(64, 16) / 4) for _ in range(3)]

    def select(self, i, device):
        self.rnn.weight_hh_l0 = nn.Parameter(self.speakers[i].detach().to(device), requires_grad=False)
        self.rnn.flatten_parameters()

    @torch.no_grad()
    def forward(self, x):
        out, (h, c) = self.rnn(x)
        return out, h


def build(device):
    net = Recognizer().to(device).eval()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 10, 8))
        if k % 40 == 39:
            net.select(k // 40 % 3, device)

    return graphsafe.Step(net.forward, (torch.randn(2, 10, 8, device=device),), refresh=refresh)
