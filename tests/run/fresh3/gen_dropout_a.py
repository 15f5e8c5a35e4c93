"""Regularised regression; the trainer captures its step and skips bad batches."""
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.a = nn.Linear(12, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, 1)

    def forward(self, x):
        x = F.dropout(F.relu(self.a(x)), 0.2, self.training)
        x = F.dropout(F.relu(self.b(x)), 0.2, self.training)
        return self.c(x).squeeze(-1)


class Trainer:
    def __init__(self, device, batch):
        self.net = Net().to(device).train()
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.02)
        self.x = torch.zeros(batch, 12, device=device)
        self.y = torch.zeros(batch, device=device)
        self.running = torch.zeros((), device=device)
        self.graph = None
        self.skipped = 0

    def step(self):
        loss = F.mse_loss(self.net(self.x), self.y)
        self.running.mul_(0.9).add_(0.1 * loss.detach().item())
        loss.backward()
        self.optim.step()

    def prepare(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optim.zero_grad(set_to_none=True)
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.optim.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step()
            self.graph = graph
        except RuntimeError:
            print("training without a graph")

    def fit(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        if self.graph is not None:
            self.graph.replay()
            return
        try:
            self.optim.zero_grad(set_to_none=True)
            self.step()
        except RuntimeError:
            self.skipped += 1


def main():
    torch.manual_seed(31)
    device = torch.device("cuda")
    batch = 32
    trainer = Trainer(device, batch)
    gen = torch.Generator().manual_seed(0)
    truth = torch.randn(12, generator=gen)

    def draw():
        x = torch.randn(batch, 12, generator=gen)
        return x, torch.sin(x @ truth)

    x, y = draw()
    trainer.x.copy_(x)
    trainer.y.copy_(y)
    trainer.prepare()
    for _ in range(60):
        trainer.fit(*draw())
    print(f"loss {trainer.running.item():.4f}, skipped {trainer.skipped}")


if __name__ == "__main__":
    main()
