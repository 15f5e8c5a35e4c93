import torch
from torch import nn


class Drafter(nn.Module):
    def __init__(self, vocab=32, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.emb(ids).cumsum(0))


class Speculator:
    def __init__(self, device, k=4):
        self.k = k
        self.draft = Drafter().to(device).eval()
        self.tokens = torch.zeros(k, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.previous = None

    @torch.no_grad()
    def warm(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.draft(self.tokens)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.logits = self.draft(self.tokens)

    def propose(self, tokens):
        self.tokens.copy_(tokens)
        self.graph.replay()
        best = self.logits.argmax(-1)
        drift = None
        if self.previous is not None:
            drift = (self.logits - self.previous).abs().max()
        self.previous = self.logits
        return best, drift

    def accept(self, draft, target):
        same = draft == target
        good = draft[same]
        torch.cuda.synchronize()
        return good.shape[0]


def main(device="cuda"):
    s = Speculator(device)
    s.warm()
    for _ in range(4):
        best, drift = s.propose(torch.randint(0, 32, (4,), device=device))
        print(s.accept(best, torch.randint(0, 32, (4,), device=device)), drift is None)


if __name__ == "__main__":
    main()
