"""Trains a small VAE; forward and backward are replayed, the optimiser runs eagerly."""
import itertools
import time

import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self, pixels=784, code=16, width=256):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, 2 * code))
        self.dec = nn.Sequential(nn.Linear(code, width), nn.ReLU(), nn.Linear(width, pixels))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(model, x):
    logits, mu, logvar = model(x)
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum()
    return (rec + kl) / x.shape[0]


def graphed_update(model, optimizer, x, warmup=3):
    """Returns a function batch -> loss that replays forward and backward."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmup):
            optimizer.zero_grad(set_to_none=True)
            elbo(model, x).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)

    tape = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(tape, stream=side):
        loss = elbo(model, x)
        loss.backward()

    def update(batch):
        x.copy_(batch, non_blocking=True)
        optimizer.zero_grad()
        tape.replay()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss.detach().clone()

    return update


class Stopwatch:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def __enter__(self):
        self.begin = time.perf_counter()
        return self

    def __exit__(self, *exc):
        torch.cuda.synchronize()
        self.total += time.perf_counter() - self.begin
        self.count += 1

    @property
    def mean(self):
        return self.total / max(1, self.count)


def batches(size, device):
    source = torch.Generator().manual_seed(0)
    while True:
        yield torch.rand(size, 784, generator=source).pin_memory()


def train(steps=2000, size=128):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    update = graphed_update(model, optimizer, torch.rand(size, 784, device=device))
    watch = Stopwatch()
    curve = []
    for batch in itertools.islice(batches(size, device), steps):
        with watch:
            curve.append(update(batch))
    points = torch.stack(curve).cpu()
    print(f"first {points[0]:.2f} last {points[-1]:.2f}, {1e3 * watch.mean:.2f} ms a step")
    return model


if __name__ == "__main__":
    train()
