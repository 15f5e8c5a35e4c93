import torch
import torch.nn as nn

from pages import Pages, PageTable


class PagedBlock(nn.Module):
    def __init__(self, dim: int, pages: Pages, page: int):
        super().__init__()
        self.pages, self.page = pages, page
        self.qkv = nn.Linear(dim, 3 * dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, blocks, length):
        table = PageTable(blocks, length, self.page)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        self.pages.store(table.slot(), k, v)
        keys, values = self.pages.load(table.flat())
        score = (keys @ q.unsqueeze(-1)).squeeze(-1) / q.shape[-1] ** 0.5
        score = score.masked_fill(~table.visible(), float("-inf"))
        return x + (score.softmax(-1).unsqueeze(1) @ values).squeeze(1)


def build(device, batch: int = 3):
    torch.manual_seed(53)
    dim, page, per_seq = 16, 4, 3
    pages = Pages(batch * per_seq, page, dim, device)
    block = PagedBlock(dim, pages, page).to(device).eval().requires_grad_(False)
    blocks = torch.randperm(batch * per_seq, device=device).view(batch, per_seq)
    length = torch.randint(0, page * per_seq, (batch,), device=device)
    return block, (torch.randn(batch, dim, device=device), blocks, length)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args).norm(dim=-1))
