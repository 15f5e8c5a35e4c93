"""Whole-iteration graph for a tabular classifier, with logging and evaluation around it."""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


def make_data(n, features, classes, seed):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(classes, features, generator=g) * 2
    y = torch.randint(0, classes, (n,), generator=g)
    x = centers[y] + torch.randn(n, features, generator=g)
    print(f"{n} rows, class balance {torch.bincount(y).tolist()}")
    return x, y


def make_step(model, opt, x, y):
    total = torch.zeros((), device=x.device)
    right = torch.zeros((), device=x.device)

    def step():
        opt.zero_grad(set_to_none=True)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        total.add_(loss.detach())
        right.add_((logits.detach().argmax(-1) == y).float().mean())

    return step, total, right


def capture(step, device, warmup=5):
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(warmup):
            step()
    torch.cuda.current_stream(device).wait_stream(side)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        step()
    return graph


@torch.no_grad()
def evaluate(model, x, y, batch=4096):
    model.eval()
    hits = 0
    for xb, yb in zip(x.split(batch), y.split(batch)):
        hits += (model(xb).argmax(-1) == yb).sum().item()
    model.train()
    return hits / len(y)


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=5000)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--log-every", type=int, default=100)
    args = ap.parse_args(argv)
    device = torch.device("cuda", 0)
    x_all, y_all = (t.to(device) for t in make_data(100_000, 40, 8, 0))
    x_val, y_val = (t.to(device) for t in make_data(20_000, 40, 8, 0))
    model = nn.Sequential(nn.Linear(40, 128), nn.ReLU(), nn.Linear(128, 8)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.zeros(args.batch, 40, device=device)
    y = torch.zeros(args.batch, dtype=torch.long, device=device)
    step, total, right = make_step(model, opt, x, y)
    graph = capture(step, device)
    total.zero_()
    right.zero_()

    begin = time.perf_counter()
    for i in range(1, args.steps + 1):
        rows = torch.randint(0, len(x_all), (args.batch,), device=device)
        torch.index_select(x_all, 0, rows, out=x)
        torch.index_select(y_all, 0, rows, out=y)
        graph.replay()
        if i % args.log_every == 0:
            print(f"{i:6d} loss {total.item() / args.log_every:.4f} acc {right.item() / args.log_every:.4f}")
            total.zero_()
            right.zero_()
    torch.cuda.synchronize(device)
    print(f"{args.steps / (time.perf_counter() - begin):.1f} steps/s, accuracy {evaluate(model, x_val, y_val):.4f}")


if __name__ == "__main__":
    main()
