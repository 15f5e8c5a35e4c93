import torch

from embedd.encoder import Encoder
from embedd.graphs import GraphStore


class Index:
    def __init__(self) -> None:
        self.vectors: list[torch.Tensor] = []

    def add(self, vectors: torch.Tensor) -> None:
        self.vectors.append(vectors)

    def search(self, query: torch.Tensor, k: int) -> torch.Tensor:
        bank = torch.cat([v for v in self.vectors if v.shape[1] == query.shape[1]])
        return (query @ bank.T).topk(k, dim=-1).indices


def batch(rows: int, length: int, device: torch.device):
    ids = torch.randint(1, 50, (rows, length), device=device)
    return ids, torch.ones_like(ids, dtype=torch.bool)


@torch.no_grad()
def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(8)
    store = GraphStore(Encoder(50, 16).to(device).eval(), rows=4, device=device)
    index = Index()
    for length in (8, 5, 7, 6, 3, 4):
        index.add(store.embed(*batch(4, length, device)))
    index.add(store.embed(*batch(2, 6, device), how="cls"))
    index.add(store.embed(*batch(3, 7, device), how="max", dims=8))
    hits = index.search(store.embed(*batch(2, 4, device)), k=3)
    print(hits.tolist())


if __name__ == "__main__":
    main()
