import torch
from torch import nn


class Target(nn.Module):
    """Scores a whole window of tokens in one pass."""

    def __init__(self, vocab: int, width: int, layers: int = 4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return self.head(x)


def accept(target_logits, draft_tokens, draft_probs):
    """Length of the accepted prefix of each row, and the token that follows it."""
    window = draft_tokens.shape[1]
    target = target_logits.softmax(-1)
    index = draft_tokens.unsqueeze(-1)
    p = target[:, :window].gather(-1, index).squeeze(-1)
    q = draft_probs.gather(-1, index).squeeze(-1)
    kept = (torch.rand_like(p) < p / q.clamp_min(1e-9)).long().cumprod(1).sum(1)
    if (kept == window).all():
        return kept, target[:, -1].argmax(-1)
    at = kept.clamp(max=window - 1).view(-1, 1, 1).expand(-1, 1, target.shape[-1])
    residual = (target.gather(1, at) - draft_probs.gather(1, at)).clamp_min(0).squeeze(1)
    return kept, residual.argmax(-1)
