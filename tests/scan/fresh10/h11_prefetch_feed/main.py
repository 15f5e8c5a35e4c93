import torch
import torch.nn as nn


class Feeder:
    """Uploads batches on a stream of its own so that copies overlap compute."""

    def __init__(self, batches, device):
        self.batches = [b.pin_memory() for b in batches]
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def __len__(self):
        return len(self.batches)

    def upload(self, index, target):
        with torch.cuda.stream(self.stream):
            target.copy_(self.batches[index], non_blocking=True)


class Embedder(nn.Module):
    def __init__(self, pixels, dim):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.fc = nn.Linear(8 * (pixels // 2) ** 2, dim)

    def forward(self, images):
        x = torch.relu(self.conv(images.sub(0.5).mul(2.0)))
        return nn.functional.normalize(self.fc(x.flatten(1)), dim=-1)


class EmbedJob:
    def __init__(self, device, batch=8, pixels=32, dim=16):
        torch.manual_seed(0)
        self.device = device
        self.dim = dim
        self.batch = batch
        self.net = Embedder(pixels, dim).to(device).eval().requires_grad_(False)
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
        for i in range(len(feeder)):
            feeder.upload(i, self.images)
            self.graph.replay()
            table[i].copy_(self.vectors)
        return table.flatten(0, 1)


def main():
    device = torch.device("cuda")
    job = EmbedJob(device)
    feeder = Feeder([torch.rand(8, 3, 32, 32) for _ in range(6)], device)
    table = job.run(feeder)
    torch.cuda.synchronize(device)
    print(table.shape, table.norm(dim=-1).mean().item())


if __name__ == "__main__":
    main()
