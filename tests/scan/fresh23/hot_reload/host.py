"""Keeps a tower resident and swaps its weights while requests are running."""
import torch
from net import Tower


class TowerHost:
    def __init__(self, width: int, depth: int, batch: int, device):
        self.device = torch.device(device)
        self.tower = Tower(width, depth).to(device).requires_grad_(False)
        self.tower.allocate(batch, 4)
        self.x = torch.zeros(batch, width, device=device)
        self.slot = torch.zeros(batch, dtype=torch.long, device=device)
        self.version = 0
        self.parked: torch.Tensor | None = None
        self.graph = None
        self.y = None

    def ensure_graph(self) -> None:
        if self.graph is not None:
            return
        saved = self.tower.memory.clone()
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self.tower(self.x, self.slot)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.y = self.tower(self.x, self.slot)
        self.tower.memory.copy_(saved)
        self.graph = graph

    def reload(self, state: dict[str, torch.Tensor]) -> None:
        own = self.tower.state_dict()
        if own.keys() != state.keys():
            raise KeyError(sorted(own.keys() ^ state.keys()))
        for name, value in state.items():
            own[name].copy_(value)
        self.version += 1

    def set_residual(self, value: float) -> None:
        if value != self.tower.residual:
            self.tower.residual = value
            self.graph = None

    def park(self) -> None:
        self.parked = self.tower.memory.to("cpu")

    def resume(self) -> None:
        self.tower.memory.copy_(self.parked)
        self.parked = None

    def forget(self) -> None:
        self.tower.memory.zero_()

    def infer(self, x: torch.Tensor, turn: int) -> torch.Tensor:
        self.ensure_graph()
        self.x.copy_(x)
        self.slot.fill_(turn % 4)
        self.graph.replay()
        return self.y.clone()
