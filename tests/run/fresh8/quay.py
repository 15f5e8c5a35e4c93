"""Candidate ranking: users' histories are scored against a fixed list of items by one recorded step."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

BATCH, HISTORY, ITEMS, DIM = 16, 20, 50, 32


@dataclass(frozen=True)
class Inputs:
    ids: torch.Tensor
    valid: torch.Tensor
    prior: torch.Tensor


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS, DIM)
        self.gate = nn.Linear(DIM, 1)
        self.head = nn.Linear(DIM, DIM)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        seen = self.items(inputs.ids)
        weight = self.gate(seen).squeeze(-1).masked_fill(~inputs.valid, -1e9).softmax(-1)
        user = self.head((weight[..., None] * seen).sum(1))
        return user @ self.items.weight.t() + inputs.prior


class Service:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.model = Ranker().to(device).eval()
        self.inputs = Inputs(
            ids=torch.zeros(BATCH, HISTORY, dtype=torch.long, device=device),
            valid=torch.ones(BATCH, HISTORY, dtype=torch.bool, device=device),
            prior=torch.zeros(ITEMS, device=device),
        )
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self.model(self.inputs)

    def load(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        valid = np.arange(HISTORY)[None] < lengths[:, None]
        self.inputs.ids.copy_(torch.from_numpy(ids))
        self.inputs = replace(self.inputs, valid=torch.from_numpy(valid).to(self.device))

    def set_prior(self, prior: np.ndarray) -> None:
        self.inputs.prior.copy_(torch.from_numpy(prior))

    def rank(self, ids: np.ndarray, lengths: np.ndarray, top: int = 5) -> torch.Tensor:
        self.load(ids, lengths)
        self.graph.replay()
        return self.scores.topk(top, dim=-1).indices


@torch.no_grad()
def main() -> None:
    torch.manual_seed(5)
    numbers = np.random.default_rng(5)
    service = Service(torch.device("cuda"))
    answers = []
    for batch in range(14):
        if batch % 5 == 0:
            service.set_prior(numbers.normal(0, 0.1, ITEMS).astype(np.float32))
        ids = numbers.integers(0, ITEMS, (BATCH, HISTORY))
        lengths = numbers.integers(1, HISTORY + 1, BATCH)
        answers.append(service.rank(ids, lengths))
    table = torch.stack(answers).cpu()
    print("answered", table.shape[0] * BATCH, "users, first:", table[0, 0].tolist())


if __name__ == "__main__":
    main()
