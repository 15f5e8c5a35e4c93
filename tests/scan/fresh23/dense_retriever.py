"""Two-stage retrieval: coarse cells, then exact scores inside the probed cells, all in one graph."""
import argparse

import torch
import torch.nn.functional as F


class Index:
    def __init__(self, dim, cells, device, capacity=256):
        self.centroids = torch.randn(cells, dim, device=device)
        self.bank = torch.zeros(capacity, dim, device=device)
        self.cell_of = torch.full((capacity,), -1, dtype=torch.long, device=device)
        self.size = 0
        self.scale = self._inverse_norms()

    def _inverse_norms(self):
        return self.centroids.norm(dim=1, keepdim=True).reciprocal()

    def assign(self, vectors):
        return (vectors @ (self.centroids * self.scale).T).argmax(1)

    def add(self, vectors):
        end = self.size + len(vectors)
        if end > len(self.bank):
            grown = max(end, 2 * len(self.bank))
            self.bank = F.pad(self.bank, (0, 0, 0, grown - len(self.bank)))
            self.cell_of = F.pad(self.cell_of, (0, grown - len(self.cell_of)), value=-1)
        self.bank[self.size : end] = vectors
        self.cell_of[self.size : end] = self.assign(vectors)
        self.size = end

    def refine(self, lr=0.2):
        """One k-means update over what is stored."""
        live = self.bank[: self.size]
        one_hot = F.one_hot(self.cell_of[: self.size], len(self.centroids)).to(live.dtype)
        mean = one_hot.T @ live / one_hot.sum(0).clamp(min=1)[:, None]
        self.centroids.lerp_(mean, lr)
        self.scale = self._inverse_norms()


class Searcher:
    def __init__(self, index: Index, dim, device, probes=2, k=5):
        self.index, self.probes, self.k = index, probes, k
        self.device = torch.device(device)
        self.query = torch.zeros(1, dim, device=device)
        self.stream = torch.cuda.Stream(self.device)
        self.last = None
        self.compile()

    def _search(self):
        ix = self.index
        coarse = self.query @ (ix.centroids * ix.scale).T
        probed = coarse.topk(self.probes, dim=1).indices
        inside = (ix.cell_of[None, :, None] == probed[:, None]).any(-1)
        scores = (self.query @ ix.bank.T).masked_fill(~inside, float("-inf"))
        return scores.topk(self.k, dim=1)

    def compile(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._search()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.scores, self.ids = self._search()

    def search(self, vector):
        self.query.copy_(vector)
        self.graph.replay()
        return self.scores, self.ids


class Session:
    """Follow-up questions of one user; drift is the share of results that changed since the question before."""

    def __init__(self, searcher):
        self.searcher = searcher
        self.previous = None
        self.drift = []

    def ask(self, vector):
        _, ids = self.searcher.search(vector)
        if self.previous is not None:
            kept = (ids[0, :, None] == self.previous[0]).any(1).float().mean()
            self.drift.append(1.0 - kept)
        self.previous = ids
        return ids.clone()


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(4)
    dim = 16
    index = Index(dim, 8, device, capacity=64)
    index.add(torch.randn(40, dim, device=device))
    searcher = Searcher(index, dim, device)
    for user in range(3):
        session = Session(searcher)
        questions = torch.randn(6, dim)
        found = []
        for question in questions:
            found.append(session.ask(question))
        print(user, torch.cat(found)[:, 0].tolist(), torch.stack(session.drift).tolist())
        index.refine()
        index.add(torch.randn(20, dim, device=device))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    main(parser.parse_args().device)
