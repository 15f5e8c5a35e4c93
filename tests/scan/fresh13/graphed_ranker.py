"""Two towers as graphed callables, a bank of earlier item vectors as negatives, and a scoring pass at the end."""

from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, ITEMS, WIDTH, BATCH = 400, 600, 24, 32


class Tower(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, WIDTH))

    def forward(self, rows):
        return F.normalize(self.net(rows), dim=-1)


class Log:
    def __init__(self, users, items, device):
        self.users = torch.randn(users, 16, device=device)
        self.items = torch.randn(items, 20, device=device)

    def batches(self, count):
        for _ in range(count):
            user = torch.randint(len(self.users), (BATCH,), device=self.users.device)
            item = torch.randint(len(self.items), (BATCH,), device=self.items.device)
            yield self.users[user], self.items[item]


class Negatives:
    """The last few batches of item vectors."""

    def __init__(self, batches=4):
        self.held = deque(maxlen=batches)

    def add(self, vectors):
        self.held.append(vectors.detach())

    def all(self):
        return torch.cat(list(self.held))


def train(user_tower, item_tower, log, steps):
    parameters = [*user_tower.parameters(), *item_tower.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    negatives, running = Negatives(), 0.0
    target = torch.arange(BATCH, device="cuda")
    for users, items in log.batches(steps):
        left, right = user_tower(users), item_tower(items)
        negatives.add(right)
        scores = left @ torch.cat([right, negatives.all()]).T
        loss = F.cross_entropy(scores * 10, target)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.item()
    return running


def score(user_tower, item_tower, log, rounds):
    user_tower.eval()
    item_tower.eval()
    total = torch.zeros(BATCH, device="cuda")
    with torch.no_grad():
        for users, items in log.batches(rounds):
            total += (user_tower(users) * item_tower(items)).sum(-1)
    return total / rounds


def main():
    torch.manual_seed(21)
    log = Log(USERS, ITEMS, "cuda")
    towers = Tower(16).cuda(), Tower(20).cuda()
    samples = (torch.randn(BATCH, 16, device="cuda"),), (torch.randn(BATCH, 20, device="cuda"),)
    user_tower, item_tower = torch.cuda.make_graphed_callables(towers, samples)
    running = train(user_tower, item_tower, log, 40)
    print(f"{running:.3f}")
    torch.save(score(user_tower, item_tower, log, 50), "scores.pt")


if __name__ == "__main__":
    main()
