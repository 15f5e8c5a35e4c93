"""A two-tower recommender whose towers are graphed callables."""
import torch
import torch.nn as nn

USERS, ITEMS, DIM, BATCH = 1000, 500, 32, 128


class Tower(nn.Module):
    def __init__(self, rows: int):
        super().__init__()
        self.table = nn.Embedding(rows, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, DIM))

    def forward(self, index):
        return nn.functional.normalize(self.mlp(self.table(index)), dim=-1)


class Recommender:
    def __init__(self):
        sample = torch.zeros(BATCH, dtype=torch.long, device="cuda")
        towers = (Tower(USERS).cuda(), Tower(ITEMS).cuda())
        self.parameters = [p for t in towers for p in t.parameters()]
        self.user, self.item = torch.cuda.make_graphed_callables(towers, ((sample,), (sample.clone(),)))

    def loss(self, users, items):
        scores = self.user(users) @ self.item(items).t() / 0.07
        return nn.functional.cross_entropy(scores, torch.arange(BATCH, device="cuda"))

    @torch.no_grad()
    def index(self, batches):
        rows = []
        for batch in batches:
            rows.append(self.item(batch))
        return torch.cat(rows)


def main():
    torch.manual_seed(2)
    model = Recommender()
    optimizer = torch.optim.SGD(model.parameters, lr=0.1)
    for _ in range(50):
        users = torch.randint(USERS, (BATCH,), device="cuda")
        items = torch.randint(ITEMS, (BATCH,), device="cuda")
        loss = model.loss(users, items)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    catalogue = [torch.randint(ITEMS, (BATCH,), device="cuda") for _ in range(3)]
    print(model.index(catalogue).shape)


if __name__ == "__main__":
    main()
