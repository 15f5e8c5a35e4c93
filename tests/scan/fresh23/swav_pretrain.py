"""Self-supervised pre-training with swapped cluster predictions (two crops per image)."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, n=96, size=12):
        g = torch.Generator().manual_seed(1)
        self.images = torch.randn(n, 3, size, size, generator=g)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i]
        return img.flip(-1) + 0.05, img.roll(2, dims=-2) * 0.9


class Backbone(nn.Module):
    def __init__(self, dim=24, prototypes=16):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(32, dim)
        self.prototypes = nn.Linear(dim, prototypes, bias=False)

    def forward(self, x):
        z = self.head(self.stem(x).mean((2, 3)))
        return self.prototypes(F.normalize(z, dim=1))


@torch.no_grad()
def sinkhorn(scores, eps=0.05, rounds=3):
    q = torch.exp(scores / eps).t()
    q = q / q.sum()
    k, b = q.shape
    for _ in range(rounds):
        q = q / q.sum(1, keepdim=True) / k
        q = q / q.sum(0, keepdim=True) / b
    return (q * b).t()


@torch.no_grad()
def unit_prototypes(model):
    w = F.normalize(model.prototypes.weight.data, dim=1)
    model.prototypes.weight.data = w


def train(device, epochs=3, batch=16, temperature=0.1):
    torch.manual_seed(0)
    model = Backbone().to(device)
    unit_prototypes(model)
    sample = torch.randn(batch, 3, 12, 12, device=device)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)
    loader = DataLoader(Crops(), batch_size=batch, shuffle=True, drop_last=True)

    for epoch in range(epochs):
        running = 0.0
        for first, second in loader:
            first = first.to(device)
            second = second.to(device)
            s1 = graphed(first)
            s2 = graphed(second)
            q1, q2 = sinkhorn(s1), sinkhorn(s2)
            p1 = F.log_softmax(s1 / temperature, dim=1)
            p2 = F.log_softmax(s2 / temperature, dim=1)
            loss = -0.5 * ((q1 * p2).sum(1).mean() + (q2 * p1).sum(1).mean())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            unit_prototypes(model)
            running += loss.item()
        print(f"epoch {epoch}: {running / len(loader):.4f}")
    return model


def main():
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
    train(device)


if __name__ == "__main__":
    main()
