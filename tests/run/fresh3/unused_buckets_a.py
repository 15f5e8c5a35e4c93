"""Speculative verification with graphs for each number of draft tokens."""
import random

import torch
from torch import nn


def next_power_of_two(n):
    return 1 << (n - 1).bit_length()


class Verifier(nn.Module):
    def __init__(self, width=48, vocab=64):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, hidden):
        hidden = hidden + self.down(torch.nn.functional.silu(self.up(hidden)))
        return self.head(hidden).argmax(dim=-1)


class SpecRunner:
    def __init__(self, device, max_draft=8):
        self.device = device
        self.max_draft = max_draft
        self.model = Verifier().to(device).requires_grad_(False)
        self.hidden = torch.zeros(max_draft, 48, device=device)
        self.capture_list = list(range(1, max_draft + 1))
        self.graphs = {}
        self.picks = {}

    def warmup(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for n in self.capture_list:
                self.model(self.hidden[:n])
        torch.cuda.current_stream().wait_stream(side)

    def capture(self):
        self.warmup()
        pool = torch.cuda.graph_pool_handle()
        for n in reversed(self.capture_list):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.picks[n] = self.model(self.hidden[:n])
            self.graphs[n] = graph

    def verify(self, hidden):
        n = hidden.shape[0]
        padded = next_power_of_two(n)
        self.hidden[:n].copy_(hidden)
        self.graphs[padded].replay()
        return self.picks[padded][:n].tolist()


def main():
    torch.manual_seed(13)
    rng = random.Random(13)
    runner = SpecRunner(torch.device("cuda"))
    runner.capture()
    accepted = 0
    for step in range(40):
        n = rng.randint(1, 8)
        tokens = runner.verify(torch.randn(n, 48))
        draft = [rng.randrange(64) for _ in range(n)]
        for token, guess in zip(tokens, draft):
            if token % 4 != guess % 4:
                break
            accepted += 1
    print("accepted", accepted)


if __name__ == "__main__":
    main()
