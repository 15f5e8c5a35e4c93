import torch

from index import DenseIndex


class Searcher:
    def __init__(self, index: DenseIndex, batch: int, dim: int, k: int, device: torch.device):
        self.index, self.k, self.device = index, k, device
        self.queries = torch.zeros(batch, dim, device=device)
        self._graph = None
        self._best = self._rows = None

    def _ensure_graph(self):
        if self._graph is not None:
            return
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self.index.search(self.queries, self.k)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._best, self._rows = self.index.search(self.queries, self.k)
        self._graph = graph

    def lookup(self, queries: torch.Tensor):
        self._ensure_graph()
        self.queries.copy_(queries)
        self._graph.replay()
        return self._best.clone(), self._rows.clone()


class Reranker:
    def __init__(self, dim: int, device: torch.device):
        self.weight = torch.randn(dim, dim, device=device) / dim**0.5

    def __call__(self, queries, index: DenseIndex, rows):
        candidates = index.vectors[rows]
        score = torch.einsum("qd,qkd->qk", queries @ self.weight, candidates)
        return rows.gather(1, score.argsort(dim=-1, descending=True))


class Pipeline:
    def __init__(self, searcher: Searcher, reranker: Reranker, confident: float):
        self.searcher, self.reranker, self.confident = searcher, reranker, confident

    def handle(self, batches):
        for queries in batches:
            best, rows = self.searcher.lookup(queries)
            if best[:, 0].min() < self.confident:
                rows = self.reranker(queries, self.searcher.index, rows)
            yield best, rows
