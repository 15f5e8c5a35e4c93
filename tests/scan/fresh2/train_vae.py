"""Trains a small VAE with a whole-iteration graph."""
import argparse
import logging
import sys

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("vae")


class VAE(nn.Module):
    def __init__(self, data=256, latent=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(data, 128), nn.ReLU(), nn.Linear(128, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, data))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        rec = F.mse_loss(self.dec(z), x, reduction="sum") / x.shape[0]
        kld = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(-1).mean()
        return rec, kld


class ProgressBar:
    def __init__(self, total, stream=sys.stderr):
        self.total = total
        self.stream = stream

    def update(self, i, **fields):
        text = " ".join(f"{k}={v:.4f}" for k, v in fields.items())
        self.stream.write(f"\r[{i + 1}/{self.total}] {text}")


def step_fn(model, opt, x):
    opt.zero_grad(set_to_none=True)
    rec, kld = model(x)
    loss = rec + kld
    loss.backward()
    opt.step()
    return rec.detach(), kld.detach()


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=2000)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args(argv)
    device = torch.device("cuda", 0)
    model = VAE().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    data = torch.rand(50_000, 256, device=device)
    x = torch.zeros(args.batch, 256, device=device)

    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            step_fn(model, opt, x)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        rec, kld = step_fn(model, opt, x)

    bar = ProgressBar(args.iters)
    worst = 0.0
    for i in range(args.iters):
        rows = torch.randint(0, data.shape[0], (args.batch,), device=device)
        torch.index_select(data, 0, rows, out=x)
        graph.replay()
        bar.update(i, rec=rec, kld=kld)
        worst = max(worst, kld)
    log.info("largest kld %s", worst)


if __name__ == "__main__":
    main()
