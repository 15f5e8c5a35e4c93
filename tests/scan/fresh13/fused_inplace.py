"""An autoencoder whose forward and backward pass are one graph, fed from rows on the device."""

import torch
import torch.nn as nn


class AutoEncoder(nn.Module):
    def __init__(self, inputs=40, code=6):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(inputs, 32), nn.SiLU(), nn.Linear(32, code))
        self.up = nn.Sequential(nn.Linear(code, 32), nn.SiLU(), nn.Linear(32, inputs))

    def forward(self, x):
        return self.up(self.down(x))


class FusedPass:
    """Gradients are allocated in the graph's pool during the capture and refilled by each replay."""

    def __init__(self, model, batch):
        self.model = model
        self.x = torch.zeros(batch, 40, device="cuda")

    def compute(self):
        loss = (self.model(self.x) - self.x).square().mean()
        loss.backward()
        return loss

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model.zero_grad(set_to_none=True)
                self.compute()
        torch.cuda.current_stream().wait_stream(side)
        self.model.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.compute()

    def __call__(self, rows, order):
        torch.index_select(rows, 0, order, out=self.x)
        self.graph.replay()
        return self.loss.clone()


class Trainer:
    def __init__(self, model, optimizer, fused):
        self.model = model
        self.optimizer = optimizer
        self.fused = fused
        self.curve = []

    def fit(self, rows, batch, epochs):
        for _ in range(epochs):
            losses = []
            order = torch.rand(len(rows), device=rows.device).argsort()
            for start in range(0, len(rows), batch):
                self.optimizer.zero_grad(set_to_none=False)
                losses.append(self.fused(rows, order[start : start + batch]))
                self.optimizer.step()
            self.curve.append(torch.stack(losses).mean())
        return self.curve


def main():
    torch.manual_seed(6)
    rows = torch.randn(320, 5, device="cuda") @ torch.randn(5, 40, device="cuda")
    model = AutoEncoder().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fused = FusedPass(model, 32)
    fused.record()
    curve = Trainer(model, optimizer, fused).fit(rows, 32, 3)
    torch.save({"curve": curve, "model": model.state_dict()}, "autoencoder.pt")


if __name__ == "__main__":
    main()
