"""Serve a toy language model: capture one decode step, collect the tokens on the device."""
import argparse
from collections import deque

import torch
from torch import nn


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
    def __init__(self, model, device, limit, batch=2):
        self.model = model
        self.device = device
        self.limit = limit
        self.token = torch.ones(batch, dtype=torch.long, device=device)
        self.state = torch.zeros(batch, 16, device=device)
        self.output = torch.zeros(limit, batch, dtype=torch.long, device=device)
        self.cursor = torch.zeros(1, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _step(self):
        logits, state = self.model(self.token, self.state)
        self.state.copy_(state)
        self.token.copy_(logits.argmax(-1))
        self.output.index_copy_(0, self.cursor, self.token.unsqueeze(0))
        self.cursor.add_(1).remainder_(self.limit)

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream), torch.no_grad():
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self._step()

    def start(self, first):
        self.state.zero_()
        self.cursor.zero_()
        self.token.fill_(first)

    def generate(self, first, target):
        self.start(first)
        for _ in range(self.limit):
            self.graph.replay()
        target.copy_(self.output)


class Service:
    def __init__(self, decoder, capacity, device):
        self.decoder = decoder
        self.queue = deque()
        self.results = torch.zeros(capacity, decoder.limit, 2, dtype=torch.long, device=device)

    def submit(self, prompt):
        if len(self.queue) >= len(self.results):
            raise RuntimeError("the queue is full")
        self.queue.append(prompt)

    def serve(self):
        prompts = []
        while self.queue:
            prompt = self.queue.popleft()
            self.decoder.generate(prompt, self.results[len(prompts)])
            prompts.append(prompt)
        return prompts


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=6)
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    service = Service(Decoder(TinyLM().to(device).eval(), device, args.limit), 4, device)
    for prompt in (3, 5, 9):
        service.submit(prompt)
    prompts = service.serve()
    answers = service.results.cpu()
    for prompt, answer in zip(prompts, answers):
        print(prompt, answer[:, 0].tolist())


if __name__ == "__main__":
    main()
