"""Dense plus sparse scoring of a fixed document shard."""
import torch


class Shard:
    FIELDS = ("title", "body", "tags")

    def __init__(self, docs, width, terms, device):
        self.vectors = torch.nn.functional.normalize(torch.randn(docs, width, device=device), dim=-1)
        self.postings = torch.rand(len(self.FIELDS), docs, terms, device=device)
        self.device = device
        self.weights = {"title": 2.0, "body": 1.0, "tags": 0.25}
        self.hidden = (0, 3)

    def lexical(self, query_terms):
        boost = torch.tensor([self.weights[f] for f in self.FIELDS], device=self.device)
        per_field = torch.einsum("fdt,qt->fqd", self.postings, query_terms)
        return (boost[:, None, None] * per_field).sum(0)

    def dense(self, query):
        return torch.nn.functional.normalize(query, dim=-1) @ self.vectors.t()

    def search(self, query, query_terms, live):
        score = self.dense(query) + 0.3 * self.lexical(query_terms)
        row, col = self.hidden
        score[row, col] = -1e4
        score = score[:, :live]
        best, where = score.topk(4, dim=-1)
        pinned = score[:, [0, 1]]
        return torch.cat((best, pinned), dim=-1), where


def build(device):
    torch.manual_seed(8)
    shard = Shard(docs=24, width=16, terms=10, device=device)
    query = torch.randn(2, 16, device=device)
    terms = torch.rand(2, 10, device=device)
    live = torch.tensor(20, device=device)
    return shard.search, (query, terms, live)
