"""Two decoding lanes (draft and target) that attend over a window of their cache."""
import math

import torch

BLOCK = 16


class Lane:
    """One stream of requests with its own cache and its own graphs."""

    def __init__(self, name, device, max_batch=4, max_len=128, dim=32):
        self.name, self.device, self.dim = name, device, dim
        self.keys = torch.randn(max_batch, max_len, dim, device=device)
        self.values = torch.randn(max_batch, max_len, dim, device=device)
        self.query = torch.zeros(max_batch, 1, dim, device=device)
        self.lengths = torch.ones(max_batch, dtype=torch.long, device=device)
        self.slots = torch.arange(max_len, device=device)
        self.window = max_len

    def attend(self, batch):
        keys = self.keys[:batch, : self.window]
        values = self.values[:batch, : self.window]
        scores = self.query[:batch] @ keys.transpose(1, 2) / math.sqrt(self.dim)
        valid = self.slots[: self.window] < self.lengths[:batch, None]
        scores = scores.masked_fill(~valid[:, None], float("-inf"))
        return torch.softmax(scores, dim=-1) @ values


class GraphRunner:
    def __init__(self):
        self.graphs = {}

    def _record(self, lane, batch):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            lane.attend(batch)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = lane.attend(batch)
        return graph, out

    def key(self, lane, batch):
        return lane.name, batch

    def run(self, lane, lengths, query):
        batch = len(lengths)
        longest = max(lengths)
        assert -(-longest // BLOCK) * BLOCK <= lane.window
        lane.query[:batch].copy_(query)
        lane.lengths[:batch].copy_(torch.tensor(lengths))
        key = self.key(lane, batch)
        if key not in self.graphs:
            self.graphs[key] = self._record(lane, batch)
        graph, out = self.graphs[key]
        graph.replay()
        return out.sum().item()


def schedule():
    """(lane, lengths of the sequences in the batch) in order of arrival."""
    yield 0, [9, 14]
    yield 1, [30, 25]
    for grown in range(0, 40, 4):
        yield 0, [10 + grown, 15 + grown]
        yield 1, [31 + grown, 26 + grown]
    yield 0, [60, 12, 33]
    yield 0, [12, 9, 16]
    yield 1, [70, 64, 3]
    yield 1, [11, 14, 2]


@torch.no_grad()
def main():
    torch.manual_seed(2)
    device = torch.device("cuda")
    lanes = [Lane("draft", device), Lane("target", device)]
    runner = GraphRunner()
    for index, lengths in schedule():
        query = torch.randn(len(lengths), 1, 32)
        value = runner.run(lanes[index], lengths, query)
        print(lanes[index].name, lengths, round(value, 4))
    print("graphs", len(runner.graphs))


if __name__ == "__main__":
    main()
