import torch
from torch import nn


class Trainer:
    def __init__(self, device, width=16):
        self.model = nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, 1)).to(device)
        self.ema = [p.detach().clone() for p in self.model.parameters()]
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.x = torch.zeros(32, 8, device=device)
        self.y = torch.zeros(32, 1, device=device)
        self.history = []

    def _step(self):
        self.opt.zero_grad(set_to_none=False)
        loss = (self.model(self.x) - self.y).square().mean()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def set_lr(self, lr):
        for group in self.opt.param_groups:
            group["lr"] = lr

    def fit(self, batches):
        for n, (x, y) in enumerate(batches):
            self.x.copy_(x)
            self.y.copy_(y)
            self.set_lr(0.05 * 0.9 ** n)
            self.graph.replay()
            self.history.append(self.loss)
            print(f"step {n} loss {self.loss:.4f}")
            for e, p in zip(self.ema, self.model.parameters()):
                e.lerp_(p.detach(), 0.01)


def main(device="cuda"):
    trainer = Trainer(device)
    trainer.record()
    batches = [(torch.randn(32, 8, device=device), torch.randn(32, 1, device=device)) for _ in range(4)]
    trainer.fit(batches)
    print(torch.stack(trainer.history).mean())


if __name__ == "__main__":
    main()
