"""Online retrieval: documents arrive while queries are answered."""
import torch
import torch.nn as nn


class VectorIndex:
    def __init__(self, dim, device):
        self.vectors = torch.zeros(0, dim, device=device)

    def add(self, rows):
        self.vectors = torch.cat([self.vectors, nn.functional.normalize(rows, dim=-1)])

    def search(self, query, k):
        return (query @ self.vectors.t()).topk(k, dim=-1)


class RetrievalService:
    def __init__(self, device, dim=32, k=4, seed_docs=64):
        torch.manual_seed(6)
        self.device = device
        self.k = k
        self.encoder = nn.Linear(dim, dim, bias=False).to(device).requires_grad_(False)
        self.index = VectorIndex(dim, device)
        self.index.add(torch.randn(seed_docs, dim, device=device))
        self.query = torch.zeros(1, dim, device=device)
        self.graph = None

    def _answer(self):
        encoded = nn.functional.normalize(self.encoder(self.query), dim=-1)
        return self.index.search(encoded, self.k)

    def start(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._answer()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores, self.ids = self._answer()

    def ingest(self, documents):
        self.index.add(self.encoder(documents))

    def run(self, traffic):
        replies = []
        for kind, payload in traffic:
            if kind == "add":
                self.ingest(payload)
                continue
            self.query.copy_(payload)
            self.graph.replay()
            replies.append(self.ids[0].tolist())
        return replies


def main():
    device = torch.device("cuda")
    service = RetrievalService(device)
    service.start()
    traffic = []
    for i in range(12):
        rows = torch.randn(1, 32, device=device)
        if i % 3 == 1:
            traffic.append(("add", rows))
        traffic.append(("query", rows))
    print(service.run(traffic))


if __name__ == "__main__":
    main()
