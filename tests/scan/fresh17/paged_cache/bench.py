import torch

from attention import PagedAttention
from pages import Pages
from runner import PagedRunner


@torch.no_grad()
def main(device="cuda", rounds=14):
    torch.manual_seed(0)
    device = torch.device(device)
    pages = Pages(count=24, page=4, width=16, device=device)
    runner = PagedRunner(PagedAttention(16, pages, device), rows=4, width=16, max_pages=5, device=device)
    tables, lengths, kept = [], [], []
    for turn in range(rounds):
        if turn % 3 == 0 and len(tables) < 4:
            tables.append([])
            lengths.append(0)
        for i, n in enumerate(lengths):
            if n % pages.page == 0:
                tables[i].append(pages.take())
        y = runner.step(torch.randn(len(tables), 16, device=device), tables, lengths)
        kept.append(y.mean())
        lengths = [n + 1 for n in lengths]
        if lengths[0] == 10:
            pages.give(tables.pop(0))
            lengths.pop(0)
    print(torch.stack(kept))


if __name__ == "__main__":
    main()
