"""Text generation where one captured step advances the whole batch."""

import torch
import torch.nn.functional as F
from torch import nn


class GruLM(nn.Module):
    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, token: torch.Tensor, hidden: torch.Tensor):
        hidden = self.cell(self.embed(token), hidden)
        return self.head(hidden), hidden


class StepGraph:
    def __init__(self, model: GruLM, rows: int, limit: int, stop: int, device):
        self.model, self.stop, self.limit = model, stop, limit
        width = model.cell.hidden_size
        self.token = torch.zeros(rows, dtype=torch.int64, device=device)
        self.hidden = torch.zeros(rows, width, device=device)
        self.alive = torch.ones(rows, dtype=torch.bool, device=device)
        self.column = torch.zeros(1, dtype=torch.int64, device=device)
        self.text = torch.full((rows, limit), stop, dtype=torch.int64, device=device)
        self._capture(device)

    def _advance(self) -> None:
        logits, hidden = self.model(self.token, self.hidden)
        self.hidden.copy_(hidden)
        odds = F.softmax(logits, -1)
        drawn = (odds / torch.empty_like(odds).exponential_()).argmax(-1)
        self.token.copy_(torch.where(self.alive, drawn, self.stop))
        self.text.index_copy_(1, self.column, self.token.unsqueeze(1))
        self.alive.logical_and_(self.token != self.stop)
        self.column.add_(1).clamp_(max=self.limit - 1)

    def _capture(self, device) -> None:
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._advance()
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._advance()

    def start(self, first: torch.Tensor) -> None:
        self.token.copy_(first)
        self.hidden.zero_()
        self.alive.fill_(True)
        self.column.zero_()
        self.text.fill_(self.stop)


def generate(step: StepGraph, first: torch.Tensor) -> torch.Tensor:
    step.start(first)
    for _ in range(step.limit):
        step.graph.replay()
        remaining = step.alive.sum().item()
        if remaining == 0:
            break
    return step.text.clone()


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = GruLM(30, 24).to(device).requires_grad_(False)
    step = StepGraph(model, rows=8, limit=40, stop=0, device=device)
    prompts = torch.randint(1, 30, (5, 8), device=device)
    texts = [generate(step, first) for first in prompts]
    print(torch.stack(texts).shape)


if __name__ == "__main__":
    main()
