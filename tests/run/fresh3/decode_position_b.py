"""Greedy decoding: the prompt goes token by token, then a graph takes over."""
import math

import torch
from torch import nn


class TinyAttention(nn.Module):
    def __init__(self, vocab, width, max_len, device):
        super().__init__()
        self.width, self.max_len = width, max_len
        self.embed = nn.Embedding(vocab, width, device=device)
        self.qkv = nn.Linear(width, 3 * width, device=device)
        self.out = nn.Linear(width, vocab, device=device)
        self.register_buffer("keys", torch.zeros(max_len, width, device=device))
        self.register_buffer("values", torch.zeros(max_len, width, device=device))
        self.register_buffer("index", torch.arange(max_len, device=device))
        self.register_buffer("position", torch.zeros((), dtype=torch.long, device=device))

    def advance(self):
        self.position.add_(1)

    def forward(self, token):
        q, k, v = self.qkv(self.embed(token)).chunk(3, dim=-1)
        here = self.index == self.position
        self.keys.copy_(torch.where(here[:, None], k, self.keys))
        self.values.copy_(torch.where(here[:, None], v, self.values))
        scores = (self.keys @ q[0]) / math.sqrt(self.width)
        scores = scores.masked_fill(self.index > self.position, float("-inf"))
        mixed = torch.softmax(scores, dim=0)[None] @ self.values
        return self.out(4 * mixed + 0.3 * q).argmax().view(1)


class Generator:
    def __init__(self, model, device):
        self.model = model
        self.token = torch.zeros(1, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream()
        self.graph = None
        self.next = None

    def eager(self, token):
        self.token.fill_(token)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            following = self.model(self.token)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.model.advance()
        return following

    def decode(self):
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.next = self.model(self.token)
        self.graph.replay()
        self.model.advance()
        return self.next

    def generate(self, prompt, count):
        for token in prompt:
            following = self.eager(token)
        self.token.copy_(following)
        history = []
        for _ in range(count):
            following = self.decode()
            self.token.copy_(following)
            history.append(following.item())
        return history


@torch.no_grad()
def main():
    torch.manual_seed(23)
    device = torch.device("cuda")
    model = TinyAttention(vocab=50, width=32, max_len=64, device=device)
    generator = Generator(model, device)
    print("tokens", generator.generate(prompt=[3, 14, 15, 9, 2], count=24))


if __name__ == "__main__":
    main()
