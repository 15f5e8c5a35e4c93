import torch
from torch import Tensor, nn


def nucleus(probs: Tensor, p: Tensor, floor: Tensor) -> Tensor:
    ranked, order = probs.sort(dim=-1, descending=True)
    before = ranked.cumsum(-1) - ranked
    ranked = torch.where((before < p) & (ranked >= floor * ranked[:, :1]), ranked, torch.zeros_like(ranked))
    out = torch.zeros_like(probs).scatter(1, order, ranked)
    return out / out.sum(-1, keepdim=True)


class NucleusStep(nn.Module):
    def __init__(self, vocab: int, dim: int, rows: int):
        super().__init__()
        self.head = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("counts", torch.zeros(rows, vocab))
        self.repeat = 1.2

    def forward(self, hidden: Tensor, temperature: Tensor, p: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.head(hidden).float()
        used = self.counts > 0
        punished = torch.where(logits > 0, logits / self.repeat, logits * self.repeat)
        logits = torch.where(used, punished, logits) / temperature[:, None]
        probs = nucleus(logits.softmax(-1), p[:, None], floor[:, None])
        noise = torch.empty_like(probs).exponential_()
        token = (probs / noise).argmax(-1, keepdim=True)
        self.counts.scatter_add_(1, token, torch.ones_like(token, dtype=self.counts.dtype))
        return token.squeeze(1), probs.gather(1, token).log().squeeze(1)


def build(device):
    torch.manual_seed(5)
    step = NucleusStep(32, 10, 4).to(device).requires_grad_(False)
    args = (
        torch.randn(4, 10, device=device),
        torch.tensor([0.7, 0.9, 1.0, 1.3], device=device),
        torch.tensor([0.8, 0.9, 0.95, 0.7], device=device),
        torch.tensor([0.02, 0.01, 0.05, 0.03], device=device),
    )
    return step, args
