"""Two-model lookahead decoding; both graphs run on one side stream and keep acceptance counts on the device."""
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.vocab, self.width = vocab, width
        self.table = nn.Parameter(torch.randn(vocab, vocab))

    def forward(self, last, out):
        cur = last
        for j in range(self.width):
            cur = self.table.index_select(0, cur).argmax(-1)
            out[:, j].copy_(cur)


class Large(nn.Module):
    def __init__(self, vocab, dim=24):
        super().__init__()
        self.e = nn.Embedding(vocab, dim)
        self.w = nn.Linear(dim, vocab)

    def forward(self, seq):
        return self.w(torch.tanh(self.e(seq).cumsum(1))).argmax(-1)


class Pair:
    def __init__(self, device, batch=4, vocab=40, width=3):
        self.small, self.large = Small(vocab, width).to(device), Large(vocab).to(device)
        self.seq = torch.zeros(batch, width + 1, dtype=torch.long, device=device)
        self.hits = torch.zeros(width + 1, dtype=torch.long, device=device)
        self.ones = torch.ones(batch, dtype=torch.long, device=device)
        self.lane = torch.cuda.Stream(device)
        self.propose = self._record(self._propose)
        self.check = self._record(self._check)
        self.hits.zero_()
        self.seq.zero_()

    def _propose(self):
        self.small(self.seq[:, 0], self.seq[:, 1:])

    def _check(self):
        target = self.large(self.seq)
        agree = (target[:, :-1] == self.seq[:, 1:]).long().cumprod(1).sum(1)
        self.hits.scatter_add_(0, agree, self.ones)
        self.seq[:, 0].copy_(target.gather(1, agree[:, None]).squeeze(1))

    def _record(self, fn):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            for _ in range(2):
                fn()
        self.lane.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.lane):
            fn()
        torch.cuda.current_stream().wait_stream(self.lane)
        return graph

    def generate(self, prompt, rounds):
        kept = torch.empty(rounds, prompt.shape[0], dtype=torch.long, device=prompt.device)
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            self.seq[:, 0].copy_(prompt)
            for r in range(rounds):
                self.propose.replay()
                self.check.replay()
                kept[r].copy_(self.seq[:, 0])
        torch.cuda.current_stream().wait_stream(self.lane)
        return kept


def main(device="cuda"):
    torch.manual_seed(8)
    with torch.inference_mode():
        pair = Pair(torch.device(device))
        texts = [pair.generate(torch.arange(4, device=device) + 4 * i, 10) for i in range(3)]
    for t in texts:
        print(t.t().tolist())
    print(pair.hits.tolist())


if __name__ == "__main__":
    main()
