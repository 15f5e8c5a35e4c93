"""A sampler with lazily captured graphs, one for each batch size."""
from collections import namedtuple

import torch

Request = namedtuple("Request", "batch temperature")
VOCAB = 128


class Sampler:
    def __init__(self, device):
        self.device = device
        self.head = torch.randn(32, VOCAB, device=device) * 0.2
        self.cache = {}
        self.hidden = {}
        self.temperature = 1.0

    def distribution(self, hidden):
        logits = hidden @ self.head
        logits = logits / self.temperature
        return torch.softmax(logits, dim=-1)

    def _static(self, batch):
        if batch not in self.hidden:
            self.hidden[batch] = torch.zeros(batch, 32, device=self.device)
        return self.hidden[batch]

    def _capture(self, batch):
        hidden = self._static(batch)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.distribution(hidden)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            probs = self.distribution(hidden)
        return graph, probs

    def release(self):
        """Called when the server has been idle for a while."""
        torch.cuda.synchronize()
        self.cache.clear()

    def sample(self, request, features):
        self.temperature = request.temperature
        key = request.batch
        static = self._static(request.batch)
        static.copy_(features)
        if key not in self.cache:
            self.cache[key] = self._capture(request.batch)
        graph, probs = self.cache[key]
        graph.replay()
        return probs.max(dim=-1).values.mean().item()


def traffic():
    morning = [Request(4, 0.7), Request(2, 0.7), Request(4, 1.0), Request(2, 1.5), Request(4, 0.7)]
    evening = [Request(4, 1.5), Request(2, 1.5), Request(4, 0.7), Request(2, 1.0), Request(4, 1.5)]
    return morning * 2, evening * 2


@torch.no_grad()
def main():
    torch.manual_seed(11)
    sampler = Sampler(torch.device("cuda"))
    for shift, requests in enumerate(traffic()):
        for request in requests:
            features = torch.randn(request.batch, 32) * 3
            peak = sampler.sample(request, features)
            print(f"shift {shift} batch {request.batch} t={request.temperature} peak={peak:.4f}")
        sampler.release()


if __name__ == "__main__":
    main()
