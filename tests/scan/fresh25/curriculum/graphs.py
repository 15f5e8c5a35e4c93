"""The two graphs: one micro-batch with its backward pass, and one evaluation."""
import torch
from torch import nn


def record(work, stream: torch.cuda.Stream, warmups: int = 3):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmups):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = work()
    return graph, result


class MicroStep:
    """Adds the gradient of one micro-batch to p.grad, which has to exist."""

    def __init__(self, model: nn.Module, rows: int, length: int, accumulate: int, device: torch.device):
        self.model = model
        self.accumulate = accumulate
        self.series = torch.zeros(rows, length, device=device)
        self.target = torch.zeros(rows, 2, device=device)
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        self.graph, self.loss = record(self.work, torch.cuda.Stream(device))
        for p in model.parameters():
            p.grad.zero_()

    def work(self) -> torch.Tensor:
        loss = (self.model(self.series) - self.target).square().mean() / self.accumulate
        loss.backward()
        return loss.detach()

    def __call__(self, series: torch.Tensor, target: torch.Tensor) -> None:
        self.series.copy_(series)
        self.target.copy_(target)
        self.graph.replay()


class Evaluation:
    def __init__(self, model: nn.Module, series: torch.Tensor, target: torch.Tensor):
        self.model, self.series, self.target = model, series, target
        self.graph, self.error = record(self.work, torch.cuda.Stream(series.device))

    @torch.no_grad()
    def work(self) -> torch.Tensor:
        return (self.model(self.series) - self.target).abs().mean()

    def __call__(self) -> torch.Tensor:
        self.graph.replay()
        return self.error.clone()
