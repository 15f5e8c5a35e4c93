"""Serve a toy language model: capture one decode step, then stream tokens to callers."""
import argparse
from collections import deque

import torch
from torch import nn

EOS = 0


class TinyLM(nn.Module):
    def __init__(self, vocab=32, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.head(state), state


class Decoder:
    def __init__(self, model, device, batch=2):
        self.model = model
        self.device = device
        self.token = torch.ones(batch, dtype=torch.long, device=device)
        self.state = torch.zeros(batch, 16, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _step(self):
        logits, state = self.model(self.token, self.state)
        self.state.copy_(state)
        return logits.argmax(-1)

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream), torch.no_grad():
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.next_token = self._step()

    def start(self, first):
        self.state.zero_()
        self.token.fill_(first)

    def generate(self, limit):
        for _ in range(limit):
            self.graph.replay()
            picked = self.next_token[0].item()
            self.token = self.next_token
            if picked == EOS:
                return
            yield picked


class Service:
    def __init__(self, decoder):
        self.decoder = decoder
        self.queue = deque()

    def submit(self, prompt):
        self.queue.append(prompt)

    def serve(self, limit):
        while self.queue:
            prompt = self.queue.popleft()
            self.decoder.start(prompt)
            yield prompt, list(self.decoder.generate(limit))


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=6)
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    device = torch.device("cuda")
    service = Service(Decoder(TinyLM().to(device).eval(), device))
    for prompt in (3, 5, 9):
        service.submit(prompt)
    for prompt, tokens in service.serve(args.limit):
        print(prompt, tokens)


if __name__ == "__main__":
    main()
