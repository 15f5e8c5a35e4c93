"""A recurrent language model whose step is one graph; a mask lets only some tokens pass."""

import torch
import torch.nn as nn
from grammar import OPEN, VOCAB

WIDTH = 48


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.head(state), state


class GuidedRunner:
    def __init__(self, device):
        self.device = device
        self.model = TinyLM().to(device).eval()
        self.token = torch.zeros(1, dtype=torch.long, device=device)
        self.state = torch.zeros(1, WIDTH, device=device)
        self.mask = torch.zeros(VOCAB, device=device)
        self.graph = None

    def step(self):
        logits, state = self.model(self.token, self.state)
        probs = (logits + self.mask).softmax(-1)
        self.token.copy_((probs / torch.empty_like(probs).exponential_(1)).argmax(-1))
        self.state.copy_(state)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def begin(self):
        self.token.fill_(OPEN)
        self.state.zero_()

    def allow(self, tokens):
        mask = torch.full((VOCAB,), float("-inf"), device=self.device)
        mask[tokens] = 0.0
        self.mask = mask

    def next_token(self):
        self.graph.replay()
        return int(self.token)
