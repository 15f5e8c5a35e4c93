"""Draft-and-verify decoding with one graph for each model."""
import torch
from torch import nn


class Lm(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.lin = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        return self.head(torch.relu(self.lin(h.cumsum(0))))


class Captured:
    def __init__(self, fn, static, device):
        self.static = static
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                fn(static)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self.result = fn(static)

    def __call__(self, value):
        self.static.copy_(value)
        self.graph.replay()
        return self.result


class Speculator:
    def __init__(self, device, vocab=48, lookahead=4):
        self.small = Lm(vocab, 16).to(device).eval()
        self.large = Lm(vocab, 48).to(device).eval()
        self.lookahead = lookahead
        self.sharpness = 1.0
        one = torch.zeros(1, dtype=torch.long, device=device)
        row = torch.zeros(lookahead + 1, dtype=torch.long, device=device)
        self.draft = Captured(lambda t: self.small(t).argmax(-1), one, device)
        self.verify = Captured(self._check, row, device)

    def _check(self, row):
        want = (self.large(row[:-1]) * self.sharpness).softmax(-1)
        chosen = want.gather(1, row[1:, None]).squeeze(1)
        okay = (chosen > 1.0 / (want.shape[1] * 1.2)).long().cumprod(0)
        return okay.sum(), want.argmax(-1)

    def round(self, token):
        guesses = [token]
        for _ in range(self.lookahead):
            guesses.append(self.draft(guesses[-1]))
        row = torch.cat(guesses)
        accepted, best = self.verify(row)
        n = accepted.item()
        if n == self.lookahead:
            self.sharpness *= 1.05
        return row[1 : n + 1].clone(), best[-1:].clone()


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    spec = Speculator(device)
    token = torch.tensor([7], device=device)
    kept = []
    for _ in range(12):
        tokens, token = spec.round(token)
        kept.append(tokens)
    print(torch.cat(kept).shape)


if __name__ == "__main__":
    main()
