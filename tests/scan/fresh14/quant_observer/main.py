"""Classifies a stream of batches whose range drifts."""

import torch
import torch.nn as nn
from layers import quantise
from observer import Observer
from server import Server

BATCH, WIDTH, CLASSES = 16, 24, 5


def stream(count):
    for number in range(count):
        yield (1 + 0.1 * number) * torch.randn(BATCH, WIDTH, device="cuda")


@torch.no_grad()
def main():
    torch.manual_seed(22)
    net = nn.Sequential(nn.Linear(WIDTH, 48), nn.ReLU(), nn.Linear(48, CLASSES))
    net = quantise(net).cuda().eval()
    priors = torch.arange(1.0, CLASSES + 1, device="cuda")
    server = Server(net, BATCH, WIDTH, priors)
    observer = Observer(net)
    scores = []
    for x in stream(32):
        observer.watch(x)
        scores.append(server(x))
    torch.save(torch.cat(scores), "scores.pt")


if __name__ == "__main__":
    main()
