"""Reads a request log, embeds it in batches, and prints a similarity report for each tenant."""
import torch

from adapters import AdapterBank
from engine import GraphEngine, Limits
from model import Encoder


def request_log(device: torch.device):
    plan = [("acme", "mean", 3, 24), ("acme", "max", 4, 24), ("globex", "mean", 4, 12), ("globex", "first", 7, 18),
            ("acme", "mean", 2, 9), ("initech", "mean", 8, 24), ("initech", "mean", 6, 10), ("globex", "max", 3, 16)]
    for number, (tenant, pooling, rows, length) in enumerate(plan * 3):
        yield number, tenant, pooling, torch.randint(1, 100, (rows, length), device=device)


class Service:
    def __init__(self, device: torch.device):
        self.encoder = Encoder().to(device).eval()
        self.bank = AdapterBank(self.encoder)
        for seed, tenant in enumerate(("acme", "globex", "initech")):
            self.bank.register(tenant, seed)
        self.engine = GraphEngine(self.encoder, Limits(), device)
        self.index: dict[str, list[torch.Tensor]] = {}

    def handle(self, tenant: str, pooling: str, ids: torch.Tensor) -> None:
        self.bank.activate(tenant)
        vectors = self.engine.encode(ids, pooling)
        self.index.setdefault(tenant, []).append(vectors)

    def report(self) -> None:
        for tenant, parts in sorted(self.index.items()):
            rows = torch.cat(parts)
            similarity = (rows @ rows.T).mean()
            print(tenant, rows.shape[0], f"{similarity.item():.5f}")


def main() -> None:
    torch.manual_seed(31)
    device = torch.device("cuda")
    service = Service(device)
    for _, tenant, pooling, ids in request_log(device):
        service.handle(tenant, pooling, ids)
    service.report()


if __name__ == "__main__":
    main()
