"""Scores document windows with a compiled two-layer ranker."""
import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.inp = nn.Linear(width, 64)
        self.out = nn.Linear(64, 1)
        self.register_buffer("offset", torch.zeros(()))

    def forward(self, docs):
        h = torch.relu(self.inp(docs))
        s = self.out(h).squeeze(-1)
        level = float(s.mean())
        return (s - level) / 2.0


def windows(count, size, width, device):
    gen = torch.Generator(device=device).manual_seed(9)
    for _ in range(count):
        yield torch.randn(size, width, generator=gen, device=device)


@torch.inference_mode()
def main(device="cuda", count=6):
    torch.manual_seed(0)
    ranker = Ranker().to(device).eval()
    score = torch.compile(ranker, mode="reduce-overhead")
    table = []
    for docs in windows(count, 16, 32, device):
        table.append(score(docs))
    ranked = torch.stack(table).topk(3, dim=-1).indices
    print(ranked.shape)


if __name__ == "__main__":
    main()
