"""Policy network and sequence log-probabilities."""
import torch
import torch.nn.functional as F
from torch import nn


class GatedMixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        h = self.norm(x)
        carried = self.value(h).cumsum(dim=1) / x.shape[1]
        return x + self.out(carried * torch.sigmoid(self.gate(h)))


class PolicyLM(nn.Module):
    def __init__(self, vocab=48, width=24, layers=2):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(GatedMixer(width) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def sequence_logp(model, ids, answer_mask):
    logits = model(ids[:, :-1])
    token = F.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return (token * answer_mask[:, 1:]).sum(-1)
