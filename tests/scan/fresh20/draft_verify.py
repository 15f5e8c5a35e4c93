"""Speculative decoding with a bigram draft and a larger verifier, each with its own graph and stream."""
import torch
from torch import nn

V, K = 48, 4


class Draft(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(V, V)

    def forward(self, last):
        picks, cur = [], last
        for _ in range(K):
            cur = self.table(cur).argmax(-1)
            picks.append(cur)
        return torch.stack(picks, dim=1)


class Verifier(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(V, dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, V))

    def forward(self, last, proposal):
        seq = torch.cat([last[:, None], proposal], dim=1)
        target = self.ff(self.emb(seq).cumsum(1)).argmax(-1)
        same = (target[:, :-1] == proposal).long().cumprod(1)
        return target, same.sum(1)


def record(fn, stream):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        fn()
        fn()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = fn()
    return graph, out


class Speculator:
    def __init__(self, batch, device):
        self.draft, self.verify = Draft().to(device), Verifier().to(device)
        self.last = torch.zeros(batch, dtype=torch.long, device=device)
        self.proposal = torch.zeros(batch, K, dtype=torch.long, device=device)
        self.s_draft, self.s_verify = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.g_draft, _ = record(lambda: self.proposal.copy_(self.draft(self.last)), self.s_draft)
        self.g_verify, (self.target, self.accepted) = record(
            lambda: self.verify(self.last, self.proposal), self.s_verify
        )
        self.rate, self.longest = torch.zeros((), device=device), 0

    def admit(self, prompt):
        static = prompt.clone()
        prefill = lambda: self.verify.ff(self.verify.emb(static).mean(1)).argmax(-1)
        graph, first = record(prefill, self.s_verify)
        graph.replay()
        self.last.copy_(first)

    def round(self):
        home = torch.cuda.current_stream()
        self.s_draft.wait_stream(home)
        with torch.cuda.stream(self.s_draft):
            self.g_draft.replay()
        self.s_verify.wait_stream(home)
        with torch.cuda.stream(self.s_verify):
            self.g_verify.replay()
        home.wait_stream(self.s_draft)
        home.wait_stream(self.s_verify)
        if self.accepted.min() == K:
            self.longest += 1
        nxt = self.target.gather(1, self.accepted[:, None]).squeeze(1)
        self.last.copy_(nxt)
        self.rate += self.accepted.float().mean()
        return self.target, nxt


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(0)
    spec = Speculator(3, torch.device(device))
    chosen = []
    for request in range(4):
        spec.admit(torch.randint(0, V, (3, 5 + request), device=device))
        for _ in range(4):
            _, nxt = spec.round()
            chosen.append(nxt)
    print(torch.stack(chosen).tolist())
    print("mean accepted", spec.rate.item() / len(chosen), spec.longest)


if __name__ == "__main__":
    main()
