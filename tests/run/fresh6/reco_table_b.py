"""Two-tower recommender: scoring and catalog encoding are captured, a fresh checkpoint arrives every few requests."""
import torch
import torch.nn.functional as F

DEV = torch.device("cuda")
USERS, ITEMS, DIM, BATCH, REQUESTS, REFRESH = 400, 256, 48, 16, 20, 5


class Towers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.user_table = torch.nn.Embedding(USERS, DIM)
        self.item_table = torch.nn.Embedding(ITEMS, DIM)
        self.user_mlp = torch.nn.Sequential(torch.nn.Linear(DIM, DIM), torch.nn.GELU(), torch.nn.Linear(DIM, DIM))
        self.item_mlp = torch.nn.Linear(DIM, DIM)

    def users(self, ids):
        return F.normalize(self.user_mlp(self.user_table(ids)), dim=-1)

    def items(self, ids):
        return F.normalize(self.item_mlp(self.item_table(ids)), dim=-1)


def checkpoint(version):
    """The trainer's newest weights, already on the card."""
    torch.manual_seed(100 + version)
    return {name: value.to(DEV) for name, value in Towers().state_dict().items()}


def capture(fn):
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        for _ in range(2):
            fn()
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = fn()
    return graph, result


class Ranker:
    def __init__(self, towers):
        self.towers = towers
        self.audit = Towers().to(DEV)
        self.all_items = torch.arange(ITEMS, device=DEV)
        self.catalog = torch.zeros(ITEMS, DIM, device=DEV)
        self.user_ids = torch.zeros(BATCH, dtype=torch.long, device=DEV)
        self.encode_graph, _ = capture(self.encode_catalog)
        self.score_graph, self.scores = capture(lambda: towers.users(self.user_ids) @ self.catalog.t())
        self.encode_graph.replay()

    def encode_catalog(self):
        self.catalog.copy_(self.towers.items(self.all_items))

    def refresh(self, weights):
        self.audit.load_state_dict(weights, assign=True)     # no graph reads the audit copy
        self.towers.load_state_dict(self.audit.state_dict())
        self.encode_graph.replay()

    def table_norm(self):
        """What the dashboard shows of the newest checkpoint."""
        return self.audit.item_table.weight.norm()

    def rank(self, ids):
        self.user_ids.copy_(ids)
        self.score_graph.replay()
        return self.scores.clone()


@torch.no_grad()
def main():
    towers = Towers().to(DEV)
    towers.load_state_dict(checkpoint(0))
    ranker = Ranker(towers)
    plain = Towers().to(DEV)
    g = torch.Generator().manual_seed(1)
    traffic = [torch.randint(USERS, (BATCH,), generator=g).to(DEV) for _ in range(REQUESTS)]

    answers, norms = [], []
    for n, ids in enumerate(traffic):
        if n and n % REFRESH == 0:
            ranker.refresh(checkpoint(n // REFRESH))
            norms.append(ranker.table_norm())
        answers.append(ranker.rank(ids))

    torch.cuda.synchronize()
    good = len(set(torch.stack(norms).tolist())) == len(norms)
    for n, ids in enumerate(traffic):
        if n % REFRESH == 0:
            plain.load_state_dict(checkpoint(n // REFRESH))
        want = plain.users(ids) @ plain.items(ranker.all_items).t()
        good = good and torch.allclose(answers[n], want, rtol=1e-3, atol=1e-4)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
