import torch
import torch.nn as nn


class Feeder:
    """Uploads into a landing buffer on a stream of its own, one batch ahead."""

    def __init__(self, batches, device):
        self.batches = [b.pin_memory() for b in batches]
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.landing = torch.zeros(batches[0].shape, device=device)
        self.next = 0

    def __len__(self):
        return len(self.batches)

    def start(self):
        if self.next == len(self.batches):
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.landing.copy_(self.batches[self.next], non_blocking=True)
        self.next += 1

    def take(self, target):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        target.copy_(self.landing)


class EmbedJob:
    def __init__(self, device, batch=8, pixels=32, dim=16):
        torch.manual_seed(0)
        self.device = device
        self.dim = dim
        self.batch = batch
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(8 * (pixels // 2) ** 2, dim),
        ).to(device).eval().requires_grad_(False)
        self.images = torch.zeros(batch, 3, pixels, pixels, device=device)
        warm = torch.cuda.Stream(device)
        warm.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.net(self.images)
        torch.cuda.current_stream(device).wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.vectors = self.net(self.images)

    def run(self, feeder):
        table = torch.empty(len(feeder), self.batch, self.dim, device=self.device)
        feeder.start()
        for i in range(len(feeder)):
            feeder.take(self.images)
            feeder.start()
            self.graph.replay()
            table[i].copy_(self.vectors)
        return table.flatten(0, 1)


def main():
    device = torch.device("cuda")
    job = EmbedJob(device)
    feeder = Feeder([torch.rand(8, 3, 32, 32) for _ in range(6)], device)
    table = job.run(feeder)
    print(table.shape, table.norm(dim=-1).mean().item())


if __name__ == "__main__":
    main()
