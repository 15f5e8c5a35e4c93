"""Language model with an adaptive softmax over a long-tailed vocabulary; the loss of a batch of tokens."""
import torch
import torch.nn as nn

import graphsafe


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=600, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.AdaptiveLogSoftmaxWithLoss(width, vocabulary, cutoffs=[40, 200], div_value=2.0)
        self.register_buffer("hidden", torch.zeros(1, 6, width))

    def forward(self, tokens):
        y, last = self.rnn(self.embed(tokens[:, :-1]), self.hidden)
        self.hidden.copy_(last.detach())
        found = self.out(y.reshape(-1, y.shape[-1]), tokens[:, 1:].reshape(-1))
        return found.output, found.loss


def zipf(rows, length, vocabulary):
    weights = 1.0 / torch.arange(1, vocabulary + 1)
    return torch.multinomial(weights, rows * length, replacement=True).view(rows, length)


def build(device):
    model = LanguageModel().to(device).eval().requires_grad_(False)
    tokens = zipf(6, 13, 600).to(device)
    return graphsafe.Step(model, (tokens,), {}, refresh=lambda args, kwargs, k: args[0].copy_(zipf(6, 13, 600)))
