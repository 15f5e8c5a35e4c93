import random
from typing import Callable, Iterator

import torch
from torch import Tensor, nn


class NextToken(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.rnn = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.rnn(self.emb(ids), state)
        return self.head(state), state


class Lottery:
    """Samples tokens; the draw belongs to the captured step."""

    def __init__(self, net: NextToken, rows: int, width: int, device: torch.device):
        self.net, self.device = net, device
        self.ids = torch.zeros(rows, dtype=torch.int64, device=device)
        self.state = torch.zeros(rows, width, device=device)
        self.gen = torch.Generator(device)
        self.jitter = 0.1
        self.k = 8
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.gen)
        self.capture_stream = torch.cuda.Stream(device)

    def draw(self) -> Tensor:
        logits, state = self.net(self.ids, self.state)
        self.state.copy_(state)
        logits = logits * (1.0 + self.jitter * random.random())
        top, where = logits.topk(self.k, dim=-1)
        noise = torch.empty_like(top).exponential_(generator=self.gen)
        pick = (top.softmax(-1) / noise).argmax(-1, keepdim=True)
        self.ids.copy_(where.gather(1, pick).squeeze(1))
        return self.ids

    @torch.no_grad()
    def capture(self) -> None:
        self.capture_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.capture_stream):
            for _ in range(2):
                self.draw()
        torch.cuda.current_stream().wait_stream(self.capture_stream)
        with torch.cuda.graph(self.graph, stream=self.capture_stream):
            self.drawn = self.draw()

    def options(self, k: int, seed: int) -> None:
        self.k = k
        self.gen = torch.Generator(self.device).manual_seed(seed)

    def stream(self, prompt: Tensor, count: int) -> Iterator[Tensor]:
        self.ids.copy_(prompt)
        self.state.zero_()
        for _ in range(count):
            self.graph.replay()
            yield self.drawn


def consume(source: Iterator[Tensor], sink: Callable[[Tensor], None]) -> None:
    for item in source:
        sink(item)


def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(17)
    lottery = Lottery(NextToken(50, 16).to(device), rows=4, width=16, device=device)
    lottery.gen.manual_seed(1)
    lottery.capture()
    texts = []
    for i, k in enumerate((8, 12, 20)):
        lottery.options(k, seed=100 + i)
        words: list[Tensor] = []
        consume(lottery.stream(torch.arange(4, device=device) + i, 10), words.append)
        texts.append(torch.stack(words, 1))
    print(torch.stack(texts).tolist())


if __name__ == "__main__":
    main()
