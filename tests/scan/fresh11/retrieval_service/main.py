import torch

from index import DenseIndex
from service import Pipeline, Reranker, Searcher

DIM, BATCH, K = 16, 4, 3


def main(device="cuda"):
    torch.manual_seed(8)
    device = torch.device(device)
    index = DenseIndex(DIM, capacity=64, device=device)
    index.add(torch.randn(40, DIM, device=device))
    pipe = Pipeline(Searcher(index, BATCH, DIM, K, device), Reranker(DIM, device), confident=0.4)
    day_one = list(pipe.handle(torch.randn(3, BATCH, DIM, device=device)))
    index.compact(torch.arange(1, 40, 2, device=device))
    index.add(torch.randn(8, DIM, device=device))
    day_two = list(pipe.handle(torch.randn(3, BATCH, DIM, device=device)))
    return {
        "scores": torch.stack([b for b, _ in day_one + day_two]),
        "rows": torch.stack([r for _, r in day_one + day_two]),
    }


if __name__ == "__main__":
    print(main()["rows"].cpu())
