import torch
from torch import nn


class Policy(nn.Module):
    """A causal policy that decodes one token for each sequence from an external KV buffer."""

    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim)
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def decode(self, token, position, cache):
        x = self.embed(token)
        cache.scatter_(1, position.view(-1, 1, 1).expand(-1, 1, cache.shape[2]), self.kv(x)[:, None])
        keys, values = cache.chunk(2, dim=-1)
        score = torch.einsum("bd,btd->bt", self.q(x), keys)
        seen = torch.arange(cache.shape[1], device=cache.device) <= position[:, None]
        att = score.masked_fill(~seen, float("-inf")).softmax(-1)
        return self.head(self.norm(x + torch.einsum("bt,btd->bd", att, values)))

    def sequence(self, tokens):
        """Teacher forcing for the trainer."""
        x = self.embed(tokens)
        keys, values = self.kv(x).chunk(2, dim=-1)
        causal = torch.ones(tokens.shape[1], tokens.shape[1], device=x.device, dtype=torch.bool).tril()
        att = (self.q(x) @ keys.mT).masked_fill(~causal, float("-inf")).softmax(-1)
        return self.head(self.norm(x + att @ values))
