"""Token server that lends its GPU memory to a trainer between rollouts.

The server decodes with one CUDA graph per batch size.  Between two rollouts it
sleeps: the trainer gets the memory, makes a few steps, and hands back averaged
weights when the server wakes up.
"""
from dataclasses import dataclass, field

import torch
import torch.nn as nn

device = torch.device("cuda")
VOCAB, DIM = 128, 64


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        h = self.embed(tokens)
        h = h + self.down(torch.relu(self.up(h)))
        return self.head(h)


@dataclass
class Captured:
    graph: torch.cuda.CUDAGraph
    tokens: torch.Tensor
    logits: torch.Tensor


@dataclass
class Server:
    model: TinyLM
    sizes: tuple = (2, 4)
    graphs: dict = field(default_factory=dict)

    def capture_all(self):
        for n in self.sizes:
            self.graphs[n] = self.capture(n)

    @torch.no_grad()
    def capture(self, n):
        tokens = torch.zeros(n, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(tokens)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self.model(tokens)
        return Captured(graph, tokens, logits)

    def decode(self, prompt, steps):
        entry = self.graphs[prompt.shape[0]]
        entry.tokens.copy_(prompt)
        rows = []
        for _ in range(steps):
            entry.graph.replay()
            rows.append(entry.logits.clone())
            entry.tokens.copy_(entry.logits.argmax(-1))
        return torch.stack(rows)

    def sleep(self):
        self.model.to("cpu")

    def wake(self, weights):
        self.model.to(device)
        self.model.load_state_dict(weights)
        self.graphs.clear()
        self.capture_all()


class Trainer:
    def __init__(self, weights):
        self.average = {k: v.clone() for k, v in weights.items()}

    def train(self, seed, steps=5):
        gen = torch.Generator().manual_seed(seed)
        self.model = TinyLM().to(device)
        self.model.load_state_dict(self.average)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        for _ in range(steps):
            x = torch.randint(0, VOCAB, (32,), generator=gen).to(device)
            y = torch.randint(0, VOCAB, (32,), generator=gen).to(device)
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        for k, v in self.model.state_dict().items():
            self.average[k].lerp_(v.cpu(), 0.5)
        return self.average


@torch.no_grad()
def decode_eager(model, prompt, steps):
    tokens, rows = prompt.clone(), []
    for _ in range(steps):
        logits = model(tokens)
        rows.append(logits)
        tokens = logits.argmax(-1)
    return torch.stack(rows)


def main():
    torch.manual_seed(0)
    model = TinyLM()
    trainer = Trainer(model.state_dict())
    server = Server(model.to(device).eval())
    server.capture_all()
    worst, total = 0.0, 0.0
    for rollout in range(3):
        if rollout:
            server.sleep()
            weights = trainer.train(seed=rollout)
            server.wake(weights)
        for n in server.sizes:
            prompt = torch.arange(n, device=device) + 7 * rollout
            got = server.decode(prompt, steps=8)
            want = decode_eager(server.model, prompt, steps=8)
            worst = max(worst, float((got - want).abs().max().nan_to_num(1e9)))
            total += float(got.abs().mean())
    print("RESULT", round(total, 4))
    print("CHECK ok" if worst < 1e-3 else f"CHECK wrong: logits differ by {worst:.4g}")


if __name__ == "__main__":
    main()
