from dataclasses import dataclass

import torch


@dataclass
class Static:
    tokens: torch.Tensor
    rows: torch.Tensor
    slots: torch.Tensor
    graph: torch.cuda.CUDAGraph
    next_tokens: torch.Tensor = None


class GraphRunner:
    """Decode graphs by padded batch size, captured when a size is first needed."""

    SIZES = (1, 2, 4, 8)

    def __init__(self, model, pool, states, device):
        self.model, self.pool, self.states, self.device = model, pool, states, device
        self.stream = torch.cuda.Stream(device)
        self.entries = {}

    def _forward(self, s):
        logits, new = self.model.step(s.tokens, self.states.read(s.rows), s.slots, self.pool, self.pool.used_rank)
        self.states.write(s.rows, new)
        return logits.argmax(-1)

    def _capture(self, size):
        zeros = [torch.zeros(size, dtype=torch.long, device=self.device) for _ in range(3)]
        zeros[1].fill_(self.states.values.shape[0] - 1)
        s = Static(*zeros, torch.cuda.CUDAGraph())
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self._forward(s)
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(s.graph, stream=self.stream):
            s.next_tokens = self._forward(s)
        return s

    def decode(self, tokens, rows, slots):
        n = tokens.shape[0]
        size = next(k for k in self.SIZES if k >= n)
        if size not in self.entries:
            self.entries[size] = self._capture(size)
        s = self.entries[size]
        s.tokens[:n].copy_(tokens)
        s.rows[:n].copy_(rows)
        s.slots[:n].copy_(slots)
        s.graph.replay()
        return s.next_tokens[:n].clone()
