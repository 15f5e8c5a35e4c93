import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from moe_serving.balance import LoadTracker, rebalance  # noqa: E402
from moe_serving.layers import Stack  # noqa: E402

TOKENS, DIM, EXPERTS = 16, 12, 4


class Worker:
    def __init__(self, model: Stack, device: torch.device):
        self.model = model
        self.stream = torch.cuda.Stream(device)
        self.x = torch.zeros(TOKENS, DIM, device=device)
        self.tracker = LoadTracker(len(model.layers), EXPERTS)
        self.build()

    def build(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x)

    def limit(self, tokens_per_expert: int) -> None:
        for layer in self.model.layers:
            layer.capacity = tokens_per_expert

    def serve(self, batch: torch.Tensor, out: torch.Tensor) -> None:
        self.x.copy_(batch)
        self.graph.replay()
        out.copy_(self.y)
        self.tracker.update(self.model)


def main(device: str = "cuda") -> None:
    torch.manual_seed(7)
    dev = torch.device(device)
    model = Stack(2, dim=DIM, hidden=24, experts=EXPERTS, capacity=6).to(dev).requires_grad_(False)
    worker = Worker(model, dev)
    batches = torch.randn(24, TOKENS, DIM, device=dev)
    results = torch.empty_like(batches)
    for i in range(len(batches)):
        worker.serve(batches[i], results[i])
        if i == 7:
            rebalance(model, worker.tracker)
        if i == 15:
            worker.limit(3)
    print("skew", worker.tracker.skew(), "mean", results.mean().item())


if __name__ == "__main__":
    main()
