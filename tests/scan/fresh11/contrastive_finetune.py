"""Contrastive fine-tuning of a small encoder whose forward and backward run as graphs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, dim: int = 20, width: int = 32, out: int = 8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.proj = nn.Linear(width, out)

    def forward(self, x):
        return self.proj(self.net(x))


def augment(x, gain: float):
    return x * (1.0 + gain * torch.linspace(-1, 1, x.shape[-1], device=x.device))


def info_nce(a, b, temperature: float = 0.2):
    logits = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t() / temperature
    target = torch.arange(a.shape[0], device=a.device)
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


class History:
    def __init__(self):
        self.values = []

    def record(self, loss):
        self.values.append(loss.detach().item())


class ContrastiveTask:
    def __init__(self, batch: int, device: torch.device, lr: float = 0.05):
        self.device = device
        self.encoder = Encoder().to(device)
        self.params = list(self.encoder.parameters())
        self.lr = lr
        sample = torch.randn(batch, 20, device=device)
        self.encode = torch.cuda.make_graphed_callables(self.encoder, (sample,))

    def loss(self, x):
        left = self.encode(augment(x, 0.3))
        right = self.encode(augment(x, -0.3))
        return info_nce(left, right)

    def update(self):
        with torch.no_grad():
            for p in self.params:
                p.sub_(p.grad, alpha=self.lr)
                p.grad = None

    def train(self, batches, history: History):
        for x in batches:
            loss = self.loss(x)
            loss.backward()
            self.update()
            history.record(loss)


def main(device="cuda"):
    torch.manual_seed(12)
    device = torch.device(device)
    task = ContrastiveTask(batch=16, device=device)
    history = History()
    torch.manual_seed(13)
    task.train(torch.randn(5, 16, 20, device=device), history)
    return torch.tensor(history.values)


if __name__ == "__main__":
    print(main())
