"""A pipeline stage: receives activations, runs the expert bank from a graph, rebalances the router."""
import math

import torch

from capturing import Recorded
from layer import ExpertBank


class StageWorker:
    def __init__(self, device, tokens=24, dim=12):
        self.bank = ExpertBank(dim).to(device)
        self.forward = Recorded(self.bank, torch.zeros(tokens, dim, device=device))
        self.served, self.loads = 0, []

    def run(self, acts):
        n = acts.shape[0]
        self.bank.router.capacity = math.ceil(1.25 * n / 4)
        out, load = self.forward(acts)
        self.loads.append(load)
        self.served += n
        return out[:n].clone()

    def rebalance(self, rate=0.02):
        error = self.loads[-1].mean() - self.loads[-1]
        self.bank.router.bias = self.bank.router.bias + rate * error.sign()


def traffic(device, rounds):
    gen = torch.Generator(device=device).manual_seed(12)
    for r in range(rounds):
        yield torch.randn(8 + (5 * r) % 17, 12, device=device, generator=gen)


@torch.inference_mode()
def main(device="cuda"):
    torch.manual_seed(0)
    worker = StageWorker(torch.device(device))
    outputs = []
    for acts in traffic(device, 10):
        outputs.append(worker.run(acts))
        worker.rebalance()
    drift = torch.stack(worker.loads).diff(dim=0).abs().sum().item()
    print(worker.served, drift, len(worker.bank.router.history))
    print(torch.cat(outputs).std().item())


if __name__ == "__main__":
    main()
