"""Whole-network capture: forward, backward and Adam in one graph, cosine schedule."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loader(rows, batch, seed=0):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 20, generator=gen)
    y = (x @ torch.randn(20, 4, generator=gen)).argmax(-1)
    return DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True, pin_memory=True, drop_last=True)


class WholeStep:
    def __init__(self, model, device, batch, peak=3e-3):
        self.model, self.peak = model, peak
        self.lr = torch.tensor(peak, device=device)
        self.opt = torch.optim.Adam(model.parameters(), lr=self.lr, capturable=True)
        self.x = torch.zeros(batch, 20, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.total = torch.zeros((), device=device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self._body()
        torch.cuda.current_stream().wait_stream(stream)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._body()
        self.total.zero_()

    def _body(self):
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.opt.step()
        self.total.add_(loss.detach())

    def __call__(self, x, y, progress):
        self.x.copy_(x, non_blocking=True)
        self.y.copy_(y, non_blocking=True)
        self.lr.fill_(self.peak * 0.5 * (1 + math.cos(math.pi * progress)))
        self.graph.replay()


def main(device="cuda", epochs=3):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    step = WholeStep(model, torch.device(device), 16)
    data = loader(64, 16)
    curve = []
    for epoch in range(epochs):
        for i, (x, y) in enumerate(data):
            step(x, y, (epoch + i / len(data)) / epochs)
        curve.append(step.total.clone() / len(data))
        step.total.zero_()
    print(torch.stack(curve))


if __name__ == "__main__":
    main()
