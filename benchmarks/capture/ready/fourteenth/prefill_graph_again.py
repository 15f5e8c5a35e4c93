"""A prefill graph fills the context that the decode step reads; for a longer prompt it is captured again, with a new result."""
import torch

import graphsafe


class Prefill:
    """Encodes a prompt of a fixed number of rows; on a GPU as a graph of its own."""

    def __init__(self, weight, rows):
        self.prompt = torch.zeros(rows, 16, device=weight.device)
        self.weight, self.graph = weight, None
        if weight.is_cuda:
            stream = torch.cuda.Stream(weight.device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.encode()
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.context = self.encode()
        else:
            self.context = self.encode()

    def encode(self):
        hidden = torch.tanh(self.prompt @ self.weight)
        return hidden.T @ hidden / len(hidden)

    def run(self, prompt):
        self.prompt.zero_()
        self.prompt[: len(prompt)].copy_(prompt)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.context.copy_(self.encode())


class Engine:
    def __init__(self, device):
        self.weight = torch.randn(16, 16, device=device) / 4
        self.prefill = Prefill(self.weight, 32)

    def admit(self, prompt):
        if len(prompt) > len(self.prefill.prompt):
            self.prefill = Prefill(self.weight, 2 * len(self.prefill.prompt))
        self.prefill.run(prompt)

    def step(self, query):
        return torch.tanh(query @ self.prefill.context)


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        if k % 12 == 0:
            rows = 8 + k // 12 % 7 * 4 if k != 156 else 45
            engine.admit(torch.randn(rows, 16))
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(engine.step, (torch.randn(4, 16, device=device),), refresh=refresh)
