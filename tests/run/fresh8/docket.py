"""Moderation service: texts are scored in full batches; verdicts are sorted and sent at the end of a window."""

from collections import deque
from dataclasses import dataclass

import torch
from torch import nn

SLOTS, LENGTH, VOCAB, LABELS = 8, 24, 200, 6


@dataclass
class Text:
    number: int
    ids: torch.Tensor


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 48)
        self.body = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, LABELS))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.body(self.embed(ids).mean(1)).sigmoid()


class Scorer:
    def __init__(self, device: torch.device) -> None:
        self.model = Classifier().to(device).eval()
        self.ids = torch.zeros(SLOTS, LENGTH, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.ids)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self.model(self.ids)

    def __call__(self, texts: list[Text]) -> torch.Tensor:
        self.ids.zero_()
        for row, text in enumerate(texts):
            self.ids[row].copy_(text.ids, non_blocking=True)
        self.graph.replay()
        return self.scores[: len(texts)]


class Window:
    """Collects the verdicts of one window of time."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.waiting: deque[Text] = deque()
        self.verdicts: dict[int, torch.Tensor] = {}

    def submit(self, text: Text) -> None:
        self.waiting.append(text)
        if len(self.waiting) == SLOTS:
            self.flush()

    def flush(self) -> None:
        if not self.waiting:
            return
        texts = [self.waiting.popleft() for _ in range(min(SLOTS, len(self.waiting)))]
        scores = self.scorer(texts)
        self.verdicts.update({text.number: scores[row] for row, text in enumerate(texts)})

    def close(self) -> list[tuple[int, list[float]]]:
        self.flush()
        order = sorted(self.verdicts)
        table = torch.stack([self.verdicts[number] for number in order]).cpu()
        self.verdicts.clear()
        return list(zip(order, table.tolist()))


@torch.no_grad()
def main() -> None:
    torch.manual_seed(21)
    device = torch.device("cuda")
    window = Window(Scorer(device))
    flagged = 0
    for start in (0, 100, 200):
        for number in range(start, start + 37):
            window.submit(Text(number, torch.randint(VOCAB, (LENGTH,)).pin_memory()))
        sent = window.close()
        flagged += sum(max(scores) > 0.55 for _, scores in sent)
        print(f"window {start}: {len(sent)} verdicts")
    print("flagged", flagged)


if __name__ == "__main__":
    main()
