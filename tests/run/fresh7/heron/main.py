"""Chat engine: prompts of any length run as they come, decode steps are replayed.

Weights may be exchanged for a checkpoint of another depth, so decode is prepared anew then.
"""
import torch
from torch import nn

VOCAB, WIDTH, SLOTS, CONTEXT = 72, 32, 4, 64


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.mix = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))
        self.head = nn.Linear(WIDTH, VOCAB)

    def hidden(self, ids):
        h = self.embed(ids)
        for layer in self.mix:
            h = h + torch.tanh(layer(h))
        return h


class Cache:
    def __init__(self, device):
        self.rows = torch.zeros(SLOTS, CONTEXT, WIDTH, device=device)
        self.length = torch.zeros(SLOTS, dtype=torch.long, device=device)
        self.lane = torch.arange(SLOTS, device=device)
        self.spots = torch.arange(CONTEXT, device=device)

    def append(self, h):
        here = self.length[:, None, None].expand(SLOTS, 1, WIDTH)
        self.rows.scatter_(1, here, h[:, None])
        self.length.add_(1).clamp_(max=CONTEXT - 1)

    def read(self, h):
        w = (self.rows * h[:, None]).sum(-1) / WIDTH ** 0.5
        w = w.masked_fill(self.spots[None] >= self.length[:, None], -1e9).softmax(-1)
        return (w[..., None] * self.rows).sum(1)


class Engine:
    def __init__(self, device):
        self.device = device
        self.cache = Cache(device)
        self.token = torch.zeros(SLOTS, dtype=torch.long, device=device)
        self.net = self.graph = None

    def decode(self):
        h = self.net.hidden(self.token)
        self.cache.append(h)
        self.token.copy_(self.net.head(self.cache.read(h)).argmax(-1))

    def load(self, checkpoint):
        self.graph = None                              # belongs to the weights that leave
        self.net = checkpoint
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.decode()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.decode()
        self.graph = graph

    def prefill(self, prompt):
        n = prompt.shape[1]
        h = self.net.hidden(prompt)
        self.cache.rows.zero_()
        self.cache.rows[:, :n].copy_(h)
        self.cache.length.fill_(n)
        self.token.copy_(self.net.head(h[:, -1]).argmax(-1))

    def chat(self, prompt, steps, tally):
        self.prefill(prompt)
        for _ in range(steps):
            self.graph.replay()
            tally.add_(self.token.sum())


@torch.no_grad()
def main():
    torch.manual_seed(23)
    device = torch.device("cuda")
    shelf = [Net(depth).to(device).eval() for depth in (2, 3)]
    prompts = [torch.randint(0, VOCAB, (SLOTS, n)).to(device) for n in (5, 9, 13, 6, 17, 11)]
    tally = torch.zeros((), dtype=torch.long, device=device)
    engine = Engine(device)
    for checkpoint in shelf:
        engine.load(checkpoint)
        for prompt in prompts:
            engine.chat(prompt, 20, tally)
    print(f"replies {2 * len(prompts)} tally {tally.item()}")


if __name__ == "__main__":
    main()
