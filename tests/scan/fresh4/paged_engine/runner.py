from __future__ import annotations

import torch

from .model import TinyLM


class Runner:
    def __init__(self, model: TinyLM, rows: int, width: int, device: str = "cuda"):
        self.model = model
        self.device = device
        self.window = width
        self.ids = torch.zeros(rows, dtype=torch.long, device=device)
        self.table = torch.zeros(rows, width, dtype=torch.long, device=device)
        self.active = torch.ones(rows, dtype=torch.bool, device=device)
        self.graph = None

    def _forward(self) -> torch.Tensor:
        logits = self.model(self.ids, self.table, self.window)
        token = logits.argmax(-1)
        return torch.where(self.active, token, self.ids)

    @torch.inference_mode()
    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self._forward()

    def load(self, weights: dict[str, torch.Tensor]) -> None:
        weights = {name: w.to(self.device) for name, w in weights.items()}
        self.model.load_state_dict(weights, assign=True)

    def step(self) -> torch.Tensor:
        self.graph.replay()
        return self.out
