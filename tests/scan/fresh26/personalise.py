"""Adapts a small keyboard model to one user with low-rank deltas."""
import torch
from torch import nn
from torch.nn import functional as F


class LowRank(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.a), self.b)


class Keyboard(nn.Module):
    def __init__(self, keys=40, width=32):
        super().__init__()
        self.embed = nn.Embedding(keys, width).requires_grad_(False)
        self.hidden = LowRank(nn.Linear(3 * width, width))
        self.out = LowRank(nn.Linear(width, keys))

    def forward(self, context):
        return self.out(torch.relu(self.hidden(self.embed(context).flatten(1))))


class UserLog:
    def __init__(self, size=96):
        gen = torch.Generator().manual_seed(5)
        self.context = torch.randint(0, 40, (size, 3), generator=gen)
        self.target = (self.context.sum(dim=1) * 7) % 40

    def batches(self, n):
        for i in range(0, len(self.target) - n + 1, n):
            yield self.context[i:i + n], self.target[i:i + n]


class Personaliser:
    def __init__(self, model, device, batch=16, peak=0.4, ramp=6):
        self.model = model.to(device)
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self.sgd = torch.optim.SGD(self.weights, lr=peak / ramp)
        self.context = torch.zeros(batch, 3, dtype=torch.long, device=device)
        self.target = torch.zeros(batch, dtype=torch.long, device=device)
        self.peak, self.ramp = peak, ramp
        self.graph = None

    def _update(self):
        self.sgd.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self.context), self.target)
        loss.backward()
        self.sgd.step()
        return loss.detach()

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self.sgd.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._update()

    def learn(self, index, context, target):
        rate = self.peak * min(1.0, (index + 1) / self.ramp)
        for group in self.sgd.param_groups:
            group["lr"] = rate
        self.context.copy_(context)
        self.target.copy_(target)
        self.graph.replay()
        norms = [p.grad.norm() for p in self.weights if p.grad is not None]
        energy = torch.stack(norms).sum() if norms else None
        self.sgd.zero_grad()
        return self.loss.item(), energy


def main():
    device = torch.device("cuda")
    torch.manual_seed(2)
    tuner = Personaliser(Keyboard(), device)
    tuner.record()
    log = UserLog()
    for epoch in range(2):
        total, seen = 0.0, 0
        for i, (context, target) in enumerate(log.batches(16)):
            loss, energy = tuner.learn(epoch * 6 + i, context, target)
            total, seen = total + loss, seen + 1
        print(f"epoch {epoch} loss {total / seen:.3f} gradients {'yes' if energy is not None else 'no'}")


if __name__ == "__main__":
    main()
