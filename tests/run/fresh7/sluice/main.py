"""A draft model proposes a few tokens, a target model scores them in one go."""
import torch
from torch import nn

VOCAB, WIDTH, LONGEST = 96, 48, 4


class Draft(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, token):
        h = torch.tanh(self.mix(self.embed(token)))
        return self.head(h).argmax(-1)


class Target(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        return torch.log_softmax(self.head(self.embed(tokens)), -1)


class Speculator:
    def __init__(self, device):
        self.device = device
        self.draft = Draft().to(device).eval()
        self.target = Target().to(device).eval()
        self.entries = {}

    def buffers(self, batch):
        return {
            "last": torch.zeros(batch, dtype=torch.long, device=self.device),
            "proposal": torch.zeros(batch, LONGEST, dtype=torch.long, device=self.device),
            "score": torch.zeros(batch, device=self.device),
        }

    def body(self, buf, k):
        token = buf["last"]
        for j in range(k):
            token = self.draft(token)
            buf["proposal"][:, j].copy_(token)
        logp = self.target(buf["proposal"][:, :k])
        buf["score"].copy_(logp.amax(-1).sum(-1))

    def entry(self, batch, k):
        key = (batch, k)
        if key not in self.entries:
            buf = self.buffers(batch)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.body(buf, k)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.body(buf, k)
            self.entries[key] = (graph, buf)
        return self.entries[key]

    def propose(self, last, k):
        graph, buf = self.entry(last.shape[0], k)
        buf["last"].copy_(last)
        graph.replay()
        return buf["proposal"][:, :k], buf["score"]


@torch.no_grad()
def main():
    torch.manual_seed(1)
    device = torch.device("cuda")
    spec = Speculator(device)
    starts = torch.randint(0, VOCAB, (72, 8)).to(device)
    plan = [2, 2, 2, 3, 4, 4, 3, 2, 4]            # how many tokens the controller asks for
    score = torch.zeros((), device=device)
    ids = torch.zeros((), dtype=torch.long, device=device)
    for i in range(72):
        k = plan[i % len(plan)]
        batch = 4 if i % 3 else 8
        tokens, s = spec.propose(starts[i, :batch], k)
        score.add_(s.mean())
        ids.add_(tokens.sum())
    print(f"score {score.item():.4f} ids {ids.item()}")


if __name__ == "__main__":
    main()
