import torch

from .buckets import BucketPool
from .model import PagedDecoder


def make_requests(device, rounds):
    requests = []
    for turn in range(rounds):
        count = 1 + turn % 4
        longest = 4 + 2 * turn
        rows = torch.arange(1, count * 16 + 1, device=device).view(count, 16)
        lengths = torch.full((count,), longest, device=device)
        requests.append((torch.randn(count, 16, device=device), rows, lengths, longest))
    return requests


def main(rounds=6):
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    pool = BucketPool(PagedDecoder().to(device).eval(), device)
    requests = make_requests(device, rounds)
    total = torch.zeros((), device=device)
    for hidden, table, lengths, longest in requests:
        total += pool.decode(hidden, table, lengths, longest).sum()
    print(float(total))


if __name__ == "__main__":
    main()
