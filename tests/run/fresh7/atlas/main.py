"""Decode engine with a scheduler that rounds its batches."""
import random

import torch
from torch import nn

VOCAB, WIDTH, LIMIT = 80, 40, 16


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cell = nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, state):
        state = torch.tanh(self.cell(torch.cat([self.embed(token), state], -1)))
        return self.head(state).argmax(-1), state


class Scheduler:
    """Yields (running, padded) for every step."""

    def __init__(self, steps):
        self.steps = steps
        self.rng = random.Random(12)

    def __iter__(self):
        running = 3
        for _ in range(self.steps):
            running = min(LIMIT, max(1, running + self.rng.choice((-2, -1, 0, 1, 2))))
            padded = 1 << (running - 1).bit_length()
            yield running, padded


class Engine:
    def __init__(self, device):
        self.model = Decoder().to(device).eval()
        self.token = torch.zeros(LIMIT, dtype=torch.long, device=device)
        self.state = torch.zeros(LIMIT, WIDTH, device=device)
        self.graphs = {}
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, n):
        token, state = self.model(self.token[:n], self.state[:n])
        self.token[:n].copy_(token)
        self.state[:n].copy_(state)

    def capture_all(self):
        side = torch.cuda.Stream()
        for n in range(LIMIT, 0, -1):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.step(n)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.step(n)
            self.graphs[n] = graph
        self.token.zero_()
        self.state.zero_()


@torch.inference_mode()
def main():
    torch.manual_seed(12)
    device = torch.device("cuda")
    engine = Engine(device)
    engine.capture_all()
    tally = torch.zeros((), dtype=torch.long, device=device)
    for running, padded in Scheduler(160):
        engine.graphs[padded].replay()
        tally.add_(engine.token[:running].sum())
    print(f"steps 160 tally {tally.item()}")


if __name__ == "__main__":
    main()
