"""Warm-up and cosine schedule around a training step captured as one graph."""
import math

import torch
from torch import nn

device = torch.device("cuda")
BATCH, DIM, STEPS, PEAK = 32, 40, 120, 3e-3


def schedule(step):
    if step < 20:
        return PEAK * (step + 1) / 20
    return PEAK * 0.5 * (1 + math.cos(math.pi * (step - 20) / (STEPS - 20)))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(DIM, 8)
        self.dec = nn.Linear(8, DIM)

    def forward(self, x):
        return self.dec(torch.tanh(self.enc(x)))


def make_optimizer(model):
    lr = schedule(0)
    return torch.optim.Adam(model.parameters(), lr=lr, capturable=True)


def set_lr(opt, value):
    for group in opt.param_groups:
        group["lr"] = value


def capture_step(model, opt, x):
    def step():
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        opt.step()
        return loss.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            opt.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(side)
    opt.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    return graph, loss


def main():
    torch.manual_seed(15)
    model = Autoencoder().to(device)
    opt = make_optimizer(model)
    x = torch.randn(BATCH, DIM, device=device)
    graph, loss = capture_step(model, opt, x)
    basis = torch.randn(6, DIM, device=device)
    curve = []
    for step in range(STEPS):
        x.copy_(torch.randn(BATCH, 6, device=device) @ basis)
        set_lr(opt, schedule(step))
        graph.replay()
        curve.append(loss.clone())
    values = torch.stack(curve).tolist()
    print(f"loss {values[0]:.3f} -> {values[-1]:.3f}, final lr {float(opt.param_groups[0]['lr']):.2e}")


if __name__ == "__main__":
    main()
