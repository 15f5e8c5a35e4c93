"""A base model with low-rank adapters; tenants are switched between requests."""
import torch
from torch import nn

DEVICE = torch.device("cuda")


class LoraLinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.lora_a = torch.zeros(rank, base.in_features, device=DEVICE)
        self.lora_b = torch.zeros(base.out_features, rank, device=DEVICE)

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.t()) @ self.lora_b.t()


class AdapterBank:
    """All adapters stay resident, one pair for each layer."""

    def __init__(self, tenants, layers, rank, width):
        gen = torch.Generator().manual_seed(7)
        self.weights = {}
        for tenant in tenants:
            self.weights[tenant] = [
                (
                    torch.randn(rank, width, generator=gen).to(DEVICE),
                    torch.randn(width, rank, generator=gen).to(DEVICE),
                )
                for _ in range(layers)
            ]

    def activate(self, tenant, model):
        for layer, (a, b) in zip(model, self.weights[tenant]):
            layer.lora_a = a
            layer.lora_b = b


class Runner:
    def __init__(self, model, width, batch):
        self.model = model
        self.x = torch.zeros(batch, width, device=DEVICE)
        self.graph = torch.cuda.CUDAGraph()
        self.stream = torch.cuda.Stream()
        self._warm()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x)

    def _warm(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y


@torch.inference_mode()
def main():
    torch.manual_seed(3)
    width, rank, layers, batch = 64, 4, 3, 4
    tenants = ("acme", "globex", "initech")
    model = nn.Sequential(
        *(LoraLinear(nn.Linear(width, width, device=DEVICE), rank) for _ in range(layers))
    )
    bank = AdapterBank(tenants, layers, rank, width)
    bank.activate("acme", model)
    runner = Runner(model, width, batch)
    scores = {t: 0.0 for t in tenants}
    for step in range(30):
        tenant = tenants[step // 5 % len(tenants)]
        if step % 5 == 0:
            bank.activate(tenant, model)
        x = torch.randn(batch, width)
        scores[tenant] += runner(x).mean().item()
    for tenant, score in scores.items():
        print(tenant, round(score, 4))


main()
