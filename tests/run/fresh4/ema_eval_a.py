"""Regression with an EMA of the weights, evaluated between graphed training steps."""
from contextlib import contextmanager

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.inp = nn.Linear(dim, 64)
        self.mid = nn.Linear(64, 64)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        return self.out(torch.relu(self.mid(x)))


class Ema:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].lerp_(p, 1 - self.decay)

    @contextmanager
    def applied(self, model):
        backup = {n: p.data.clone() for n, p in model.named_parameters()}
        for n, p in model.named_parameters():
            p.data = self.shadow[n]
        try:
            yield
        finally:
            for n, p in model.named_parameters():
                p.data = backup[n]


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    error = nn.functional.mse_loss(model(x), y)
    model.train()
    return error


def main():
    device = torch.device("cuda")
    torch.manual_seed(6)
    model = Net().to(device)
    ema = Ema(model)
    model = torch.cuda.make_graphed_callables(model, (torch.randn(16, 32, device=device),))
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    target = torch.randn(32, 1, device=device) * 32 ** -0.5
    val_x = torch.randn(64, 32, device=device)
    val_y = val_x @ target
    report = []
    for epoch in range(4):
        for _ in range(20):
            x = torch.randn(16, 32, device=device)
            loss = nn.functional.mse_loss(model(x), x @ target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(model)
        with ema.applied(model):
            report.append(evaluate(model, val_x, val_y))
    print("ema validation", [round(v, 4) for v in torch.stack(report).tolist()])


if __name__ == "__main__":
    main()
