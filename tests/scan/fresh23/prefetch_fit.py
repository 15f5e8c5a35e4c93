import time

import torch
from torch import nn


class Decoder:
    """Stands in for the image decoder: fills a pinned host tensor in place."""

    def __init__(self, batch, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.batch = batch

    def into(self, pixels, labels):
        pixels.random_(0, 255, generator=self.rng)
        labels.random_(0, 10, generator=self.rng)


class CopyEngine:
    def __init__(self, batch, device, depth=2):
        self.stream = torch.cuda.Stream(device)
        self.host = [
            (
                torch.empty(batch, 3, 16, 16, dtype=torch.uint8).pin_memory(),
                torch.empty(batch, dtype=torch.long).pin_memory(),
            )
            for _ in range(depth)
        ]
        self.copied = [torch.cuda.Event() for _ in range(depth)]
        self.decoder = Decoder(batch, seed=4)
        self.turn = 0

    def push(self, pixels, labels):
        slot = self.turn % len(self.host)
        host_pixels, host_labels = self.host[slot]
        self.copied[slot].synchronize()
        self.decoder.into(host_pixels, host_labels)
        with torch.cuda.stream(self.stream):
            pixels.copy_(host_pixels, non_blocking=True)
            labels.copy_(host_labels, non_blocking=True)
            self.copied[slot].record(self.stream)
        self.turn += 1
        return self.copied[slot]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.SiLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.SiLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
        )

    def forward(self, pixels):
        return self.body(pixels.float().div(127.5).sub(1.0))


class Fit:
    def __init__(self, device, batch=32):
        self.device = device
        self.net = Net().to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9)
        self.pixels = torch.zeros(batch, 3, 16, 16, dtype=torch.uint8, device=device)
        self.labels = torch.zeros(batch, dtype=torch.long, device=device)
        self.engine = CopyEngine(batch, device)
        self.graph = torch.cuda.CUDAGraph()

    def _step(self):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.net(self.pixels), self.labels)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def build(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph, stream=side):
            self.loss = self._step()

    def epoch(self, steps):
        losses = []
        arrived = self.engine.push(self.pixels, self.labels)
        began = time.perf_counter()
        for _ in range(steps):
            torch.cuda.current_stream(self.device).wait_event(arrived)
            self.graph.replay()
            arrived = self.engine.push(self.pixels, self.labels)
            losses.append(self.loss)
        torch.cuda.synchronize(self.device)
        rate = steps / (time.perf_counter() - began)
        return torch.stack(losses).mean().item(), rate

    def train_stem(self, flag):
        for param in self.net.body[0].parameters():
            param.requires_grad_(flag)


def main(device="cuda"):
    torch.manual_seed(2)
    fit = Fit(torch.device(device))
    fit.train_stem(False)
    fit.build()
    for epoch in range(3):
        if epoch == 1:
            fit.train_stem(True)
        loss, rate = fit.epoch(12)
        print(f"epoch {epoch} loss {loss:.4f} ({rate:.0f} it/s)")


if __name__ == "__main__":
    main()
