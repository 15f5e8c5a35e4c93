import torch
from torch import nn


class RunnerModel(nn.Module):
    def __init__(self, vocab=32, dim=16, positions=64):
        super().__init__()
        self.token = nn.Embedding(vocab, dim)
        self.position = nn.Embedding(positions, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, vocab))

    def forward(self, tokens, lengths):
        return self.mlp(self.token(tokens) + self.position(lengths)).argmax(-1)


class ModelRunner:
    def __init__(self, model, slots, device):
        self.device = device
        self.tokens = torch.zeros(slots, dtype=torch.long, device=device)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.capture_stream = torch.cuda.Stream(device)
        self.model = model
        self.graph, self.picked = self._record()

    def _record(self):
        self.capture_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad(), torch.cuda.stream(self.capture_stream):
            for _ in range(2):
                self.model(self.tokens, self.lengths)
        torch.cuda.current_stream(self.device).wait_stream(self.capture_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, stream=self.capture_stream):
            picked = self.model(self.tokens, self.lengths)
        return graph, picked

    def prepare(self, requests):
        tokens = [0] * len(self.tokens)
        for request in requests:
            tokens[request.slot] = request.last
            self.lengths[request.slot] = request.length
        self.tokens.copy_(torch.tensor(tokens, device=self.device))

    def execute(self, requests):
        self.prepare(requests)
        self.graph.replay()
        return self.picked.tolist()
