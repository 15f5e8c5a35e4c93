"""Prefill graphs of several sizes, made on demand, copy their result into one static context that the decode step reads."""
import torch

import graphsafe


class Prefill:
    def __init__(self, weight, context, rows):
        self.prompt = torch.zeros(rows, 16, device=weight.device)
        self.weight, self.context, self.graph = weight, context, None
        if weight.is_cuda:
            stream = torch.cuda.Stream(weight.device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.encode()
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.encode()

    def encode(self):
        hidden = torch.tanh(self.prompt @ self.weight)
        self.context.copy_(hidden.T @ hidden / len(hidden))

    def run(self, prompt):
        self.prompt.zero_()
        self.prompt[: len(prompt)].copy_(prompt)
        self.graph.replay() if self.graph is not None else self.encode()


class Engine:
    def __init__(self, device):
        self.weight = torch.randn(16, 16, device=device) / 4
        self.context = torch.zeros(16, 16, device=device)
        self.graphs = {}
        self.admit(torch.randn(8, 16))

    def admit(self, prompt):
        size = 16
        while size < len(prompt):
            size *= 2
        if size not in self.graphs:
            self.graphs[size] = Prefill(self.weight, self.context, size)
        self.graphs[size].run(prompt)

    def step(self, query):
        return torch.tanh(query @ self.context)


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        if k % 12 == 0:
            engine.admit(torch.randn(8 + k // 12 * 4, 16))
        args[0].copy_(torch.randn(4, 16))

    return graphsafe.Step(engine.step, (torch.randn(4, 16, device=device),), refresh=refresh)
