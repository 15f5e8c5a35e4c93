"""A captured step that fetches its own tokens from pinned memory."""
import random

import torch
from torch import nn

SEQUENCES = 32


class Step(nn.Module):
    def __init__(self, device, vocab=512, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, device=device)
        self.mix = nn.Linear(width, width, device=device)
        self.register_buffer("tokens", torch.zeros(SEQUENCES, dtype=torch.long, device=device))
        self.register_buffer("state", torch.zeros(SEQUENCES, width, device=device))

    def forward(self, host_tokens):
        self.tokens.copy_(host_tokens, non_blocking=True)
        x = self.embed(self.tokens)
        for _ in range(4):
            x = torch.tanh(self.mix(x))
        self.state.mul_(0.9).add_(x)
        return self.state.norm(dim=-1)


class Loop:
    def __init__(self, device):
        self.step = Step(device).requires_grad_(False)
        self.host = torch.zeros(SEQUENCES, dtype=torch.long, pin_memory=True)
        self.finished = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        self.stream = torch.cuda.Stream(device)

    def prepare(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.step(self.host)
            self.stream.synchronize()
            self.graph.capture_begin()
            self.norms = self.step(self.host)
            self.graph.capture_end()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.step.state.zero_()

    def write_tokens(self, tokens):
        for row, token in enumerate(tokens):
            self.host[row] = token

    def advance(self, tokens):
        self.write_tokens(tokens)
        self.graph.replay()
        self.finished.record()


def main():
    torch.manual_seed(0)
    rng = random.Random(3)
    loop = Loop(torch.device("cuda"))
    loop.prepare()
    for _ in range(50):
        loop.advance([rng.randrange(512) for _ in range(SEQUENCES)])
    torch.cuda.synchronize()
    norms = loop.norms.cpu()
    print("mean norm", round(norms.mean().item(), 5), "max", round(norms.max().item(), 5))


if __name__ == "__main__":
    main()
