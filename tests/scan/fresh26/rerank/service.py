"""Answers queries from a replayed ranker; the store gets a new export now and then."""
import torch

from features import FeatureStore
from ranker import CrossScorer, Ranker


class Service:
    def __init__(self, device):
        self.store = FeatureStore(200, 24, device)
        self.ranker = Ranker(CrossScorer(24), self.store, device)
        self.ranker.record()
        self.served = 0

    def handle(self, query, candidates):
        self.served += 1
        return self.ranker.rank(query, candidates)

    def refresh(self):
        self.store.publish(seed=100 + self.store.version)


def traffic(device, count):
    for i in range(count):
        width = 32 - 7 * (i % 3)
        yield torch.randn(1, 24, device=device), torch.randperm(200, device=device)[:width]


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    service = Service(device)
    for i, (query, candidates) in enumerate(traffic(device, 9)):
        if i % 4 == 3:
            service.refresh()
        print(service.store.version, service.handle(query, candidates))
    print("served", service.served)


if __name__ == "__main__":
    main()
