"""Preference scoring: the reward network runs beside the reference network on a stream of its own."""

import logging

import torch
from torch import nn

ROWS, LENGTH, VOCAB, DIM, BATCHES = 8, 16, 120, 48, 20
log = logging.getLogger("gavel")


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.body = nn.Sequential(nn.Linear(DIM, DIM), nn.GELU(), nn.Linear(DIM, VOCAB))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.body(self.embed(ids[:, :-1]))
        chosen = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])
        return chosen.squeeze(-1).sum(-1)


class Reward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.head = nn.Linear(DIM, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.embed(ids).mean(1))).squeeze(-1)


class Judge:
    def __init__(self, device: torch.device) -> None:
        self.reference = Language().to(device).eval()
        self.reward = Reward().to(device).eval()
        self.ids = torch.zeros(ROWS, LENGTH, dtype=torch.long, device=device)
        self.score = torch.zeros(ROWS, device=device)
        self.likelihood = torch.zeros(ROWS, device=device)
        self.beside = torch.cuda.Stream()
        self.graph: torch.cuda.CUDAGraph | None = None
        self.judge()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.judge()
            self.graph = graph
        except RuntimeError as error:
            log.warning("no graph: %.60s", error)
            self.beside = torch.cuda.Stream()

    def judge(self) -> None:
        self.beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.beside):
            self.score.copy_(self.reward(self.ids))
        self.likelihood.copy_(self.reference(self.ids))

    def __call__(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.ids.copy_(ids)
        if self.graph is None:
            self.judge()
        else:
            self.graph.replay()
        torch.cuda.current_stream().wait_stream(self.beside)
        return self.score.clone(), self.likelihood.clone()


@torch.no_grad()
def main() -> None:
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(29)
    device = torch.device("cuda")
    batches = [torch.randint(VOCAB, (ROWS, LENGTH), device=device) for _ in range(BATCHES)]
    judge = Judge(device)
    margins = []
    for ids in batches:
        score, likelihood = judge(ids)
        margins.append(score - 0.01 * likelihood)
    print("margin", f"{torch.stack(margins).mean().item():+.5f}")


if __name__ == "__main__":
    main()
