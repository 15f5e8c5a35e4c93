"""Static inputs and graphs of one batch size."""

from dataclasses import dataclass

import torch


@dataclass
class Bucket:
    ids: torch.Tensor
    slots: torch.Tensor
    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor

    def load(self, ids: torch.Tensor, slots: torch.Tensor, spare: int) -> None:
        n = ids.shape[0]
        self.ids[:n].copy_(ids)
        self.slots[:n].copy_(slots)
        self.ids[n:].zero_()
        self.slots[n:].fill_(spare)

    def run(self) -> torch.Tensor:
        self.graph.replay()
        return self.logits


def record(model, size: int, spare: int, stream: torch.cuda.Stream, device) -> Bucket:
    ids = torch.zeros(size, dtype=torch.int64, device=device)
    slots = torch.full((size,), spare, dtype=torch.int64, device=device)
    here = torch.cuda.current_stream(device)
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(ids, slots)
    here.wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        logits = model(ids, slots)
    return Bucket(ids, slots, graph, logits)
