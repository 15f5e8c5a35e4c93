import torch

from .buckets import BucketPool
from .model import PagedDecoder


def requests(device, rounds):
    for turn in range(rounds):
        count = 1 + turn % 4
        longest = 4 + 2 * turn
        rows = torch.arange(1, count * 16 + 1, device=device).view(count, 16)
        lengths = torch.full((count,), longest, device=device)
        yield torch.randn(count, 16, device=device), rows, lengths, longest


def main(rounds=6):
    torch.manual_seed(0)
    device = torch.device("cuda")
    pool = BucketPool(PagedDecoder().to(device).eval(), device)
    total = torch.zeros((), device=device)
    for hidden, table, lengths, longest in requests(device, rounds):
        total += pool.decode(hidden, table, lengths, longest).sum()
    print(float(total))


if __name__ == "__main__":
    main()
