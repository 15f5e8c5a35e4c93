"""Cross-encoder reranker over a resident document feature store."""
import torch
from torch import nn


class FeatureStore:
    def __init__(self, rows, dim, device):
        self.device = device
        self.table = torch.randn(rows, dim, device=device)
        self.version = 0

    def refresh(self, rows):
        self.table = rows.to(self.device)
        self.version += 1


class Scorer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Linear(2 * dim, dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, query, docs):
        q = query.expand(docs.shape[0], -1)
        return self.out(torch.relu(self.mix(torch.cat([q, docs], dim=-1)))).squeeze(-1)


class Reranker:
    def __init__(self, store, scorer, dim, slots=32):
        self.store = store
        self.scorer = scorer
        self.slots = slots
        self.temperature = 1.0
        self.query = torch.zeros(1, dim, device=store.device)
        self.ids = torch.zeros(slots, dtype=torch.long, device=store.device)
        self.graph = None
        self.scores = None

    def _compute(self):
        docs = self.store.table.index_select(0, self.ids)
        return torch.sigmoid(self.scorer(self.query, docs) / self.temperature)

    @torch.no_grad()
    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._compute()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self._compute()

    def rank(self, query, ids, strictness):
        self.temperature = 1.0 / strictness
        self.query.copy_(query)
        self.ids.copy_(ids)
        self.graph.replay()
        return self.scores


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    store = FeatureStore(256, 16, device)
    reranker = Reranker(store, Scorer(16).to(device).eval(), 16)
    reranker.prepare()
    history = []
    for request in range(12):
        if request and request % 4 == 0:
            store.refresh(torch.randn(256, 16))
        query = torch.randn(1, 16, device=device)
        ids = torch.randint(0, 256, (reranker.slots,), device=device)
        history.append(reranker.rank(query, ids, 1.0 + request / 4))
    spread = torch.stack(history).std(dim=0)
    print("store version", store.version, "score spread", spread.mean().item())


if __name__ == "__main__":
    main()
