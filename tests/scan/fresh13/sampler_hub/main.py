"""A decode loop that groups requests by their sampling parameters."""

import torch
import torch.nn as nn
from hub import SamplerHub, SamplingParams

VOCAB, WIDTH, STOP = 150, 32, 7


class Request:
    def __init__(self, number, params, limit=16):
        self.number = number
        self.params = params
        self.limit = limit
        self.text = []
        self.finished = False

    def push(self, token):
        self.text.append(token)
        self.finished = token == STOP or len(self.text) >= self.limit


class Server:
    def __init__(self):
        self.embed = nn.Embedding(VOCAB, WIDTH).cuda().requires_grad_(False)
        self.head = nn.Linear(WIDTH, VOCAB).cuda().requires_grad_(False)
        self.hub = SamplerHub(VOCAB)

    def decode(self, group, params):
        last = torch.full((len(group),), 1, dtype=torch.long, device="cuda")
        counts = torch.zeros(len(group), VOCAB, device="cuda")
        while not all(request.finished for request in group):
            logits = self.head(self.embed(last))
            last = self.hub.sample(logits, counts, params)
            counts.scatter_add_(1, last.unsqueeze(1), torch.ones_like(counts[:, :1]))
            for request, token in zip(group, last.tolist(), strict=True):
                request.push(token)


@torch.inference_mode()
def main():
    torch.manual_seed(12)
    server = Server()
    kinds = [SamplingParams(), SamplingParams(0.7, 0.5, 5), SamplingParams(1.2, 2.0, 50)]
    for number, params in enumerate(kinds * 2):
        group = [Request(10 * number + k, params) for k in range(2 + number % 2)]
        server.decode(group, params)
        print(params, [len(request.text) for request in group])


if __name__ == "__main__":
    main()
