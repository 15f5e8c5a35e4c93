import torch
from torch import nn


class SlotLM(nn.Module):
    """Keeps the last token, position and text of every slot on the device."""

    def __init__(self, vocab=64, width=32, slots=16, limit=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocab)
        self.limit = limit
        self.register_buffer("memory", torch.zeros(slots + 1, width))
        self.register_buffer("last", torch.zeros(slots + 1, dtype=torch.long))
        self.register_buffer("at", torch.zeros(slots + 1, dtype=torch.long))
        self.register_buffer("text", torch.zeros((slots + 1) * limit, dtype=torch.long))

    def forward(self, slots, heat):
        h = torch.cat([self.emb(self.last[slots]), self.memory[slots]], dim=-1)
        h = torch.tanh(self.mix(h))
        self.memory.index_copy_(0, slots, h)
        logits = self.head(h)
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        token = torch.where(heat > 0, logits / heat.clamp_min(1e-3) + noise, logits).argmax(-1)
        at = self.at[slots]
        self.text.index_copy_(0, slots * self.limit + at.clamp_max(self.limit - 1), token)
        self.at.index_copy_(0, slots, at + 1)
        self.last.index_copy_(0, slots, token)
        return token
