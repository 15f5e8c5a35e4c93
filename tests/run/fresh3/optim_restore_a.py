"""A captured training step with rollback to the last good checkpoint."""
import io

import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self, device, batch=16, width=32):
        self.device = device
        self.net = nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.x = torch.zeros(batch, width, device=device)
        self.y = torch.zeros(batch, 1, device=device)
        self.graph = None
        self.loss = None

    def _forward_backward(self):
        loss = F.mse_loss(self.net(self.x), self.y)
        loss.backward()
        self.optim.step()
        return loss

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optim.zero_grad(set_to_none=True)
                self._forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optim.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self._forward_backward()

    def train_batch(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss

    def snapshot(self):
        buffer = io.BytesIO()
        torch.save({"net": self.net.state_dict(), "optim": self.optim.state_dict()}, buffer)
        return buffer.getvalue()

    def rollback(self, blob):
        state = torch.load(io.BytesIO(blob), map_location="cpu")
        with torch.no_grad():
            self.net.load_state_dict(state["net"])
            self.optim.load_state_dict(state["optim"])


def batches(count, batch, width, seed):
    gen = torch.Generator().manual_seed(seed)
    truth = torch.randn(width, 1, generator=gen)
    for _ in range(count):
        x = torch.randn(batch, width, generator=gen)
        yield x, torch.tanh(x @ truth)


def main():
    torch.manual_seed(5)
    device = torch.device("cuda")
    trainer = Trainer(device)
    first = next(batches(1, 16, 32, 0))
    trainer.x.copy_(first[0])
    trainer.y.copy_(first[1])
    trainer.capture()
    best, blob = float("inf"), trainer.snapshot()
    rollbacks = 0
    for epoch in range(5):
        total = torch.zeros((), device=device)
        for x, y in batches(12, 16, 32, epoch):
            total += trainer.train_batch(x, y).detach()
        mean = total.item() / 12
        if mean > best * 0.98 or epoch == 2:
            trainer.rollback(blob)
            rollbacks += 1
        else:
            best, blob = mean, trainer.snapshot()
        print(f"epoch {epoch} loss {mean:.4f}")
    print("rollbacks", rollbacks)


if __name__ == "__main__":
    main()
