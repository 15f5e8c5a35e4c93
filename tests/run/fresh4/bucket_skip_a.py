"""Decode engine with one graph per batch bucket."""
import torch
from torch import nn

HIDDEN, VOCAB = 64, 120
BUCKETS = [1, 2, 4, 8]
MAX_RUNNING = 4


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.gate = nn.Linear(2 * HIDDEN, HIDDEN)
        self.cand = nn.Linear(2 * HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB)

    def forward(self, token, state):
        both = torch.cat([self.embed(token), state], -1)
        z = torch.sigmoid(self.gate(both))
        new = z * state + (1 - z) * torch.tanh(self.cand(both))
        return self.head(new).argmax(-1), new


class DecodeEngine:
    def __init__(self, device):
        self.cell = Cell().to(device)
        self.token = torch.zeros(max(BUCKETS), dtype=torch.long, device=device)
        self.bias = torch.zeros(MAX_RUNNING, HIDDEN, device=device)
        self.state = torch.zeros(max(BUCKETS), HIDDEN, device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = {}
        for size in BUCKETS:
            try:
                self.graphs[size] = self._capture(size)
            except RuntimeError:
                continue  # most likely out of memory: leave the large one out

    def _body(self, size):
        steered = self.state[:size] + self.bias[:size]
        token, state = self.cell(self.token[:size], steered)
        self.token[:size].copy_(token)
        self.state[:size].copy_(state)

    def _capture(self, size):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.cell(self.token[:size], self.state[:size])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self._body(size)
        return graph

    def step(self, size):
        graph = self.graphs.get(size)
        if graph is not None:
            graph.replay()
            return
        token, state = self.cell(self.token[:size], self.state[:size])
        self.token[:size].copy_(token)
        self.state[:size].copy_(state)


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(22)
    engine = DecodeEngine(device)
    running = [1, 2, 4] + [8] * 40 + [4, 4, 2, 1]
    for size in running:
        engine.step(size)
    print("steps", len(running), "tokens", engine.token.tolist())


if __name__ == "__main__":
    main()
