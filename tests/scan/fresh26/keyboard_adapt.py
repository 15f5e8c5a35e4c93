"""On-device personalisation: an adapter is trained on recent words with a captured step."""
import torch
from torch import nn
from torch.nn import functional as F


class Personaliser:
    def __init__(self, vocab, dim, batch, device):
        self.base = nn.Embedding(vocab, dim).to(device).requires_grad_(False)
        self.adapter = nn.Linear(dim, vocab).to(device)
        self.words = torch.zeros(batch, dtype=torch.long, device=device)
        self.target = torch.zeros(batch, dtype=torch.long, device=device)
        self.velocity = [torch.zeros_like(p) for p in self.adapter.parameters()]
        self.rate = 0.1
        self.best = float("inf")
        self.graph = torch.cuda.CUDAGraph()
        self.loss = None

    def step(self):
        loss = F.cross_entropy(self.adapter(self.base(self.words)), self.target)
        params = list(self.adapter.parameters())
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, v, g in zip(params, self.velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(v * self.rate)
        return loss.detach()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.loss = self.step()

    def new_session(self):
        self.velocity = [torch.zeros_like(v) for v in self.velocity]

    def learn(self, words, target, progress):
        self.rate = 0.1 * (1.0 - progress)
        self.words.copy_(words)
        self.target.copy_(target)
        self.graph.replay()
        if self.loss.item() < self.best:
            self.best = 0.99 * self.best if self.best < 1e9 else 10.0


def main():
    torch.manual_seed(8)
    device = torch.device("cuda")
    model = Personaliser(50, 16, 8, device)
    model.capture()
    for n in range(20):
        if n and n % 5 == 0:
            model.new_session()
        words = torch.randint(0, 50, (8,), device=device)
        model.learn(words, (words + 1) % 50, n / 20)
    print("best", model.best, "final", model.loss.item())


if __name__ == "__main__":
    main()
