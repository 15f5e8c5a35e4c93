"""Train a classifier with a cosine schedule and stochastic weight averaging."""
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR


class Meter:
    def __init__(self, decay=0.95):
        self.decay = decay
        self.value = 0.0

    def add(self, loss):
        self.value = self.decay * self.value + (1 - self.decay) * loss.item()


class Averager:
    def __init__(self, model):
        self.shadow = [p.detach().clone() for p in model.parameters()]
        self.seen = 0

    @torch.no_grad()
    def update(self, model):
        self.seen += 1
        for shadow, p in zip(self.shadow, model.parameters()):
            shadow.lerp_(p, 1.0 / self.seen)


class Classifier(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, classes))

    def forward(self, x):
        return self.net(x)


class Trainer:
    def __init__(self, model, lr=3e-3, steps=500):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.schedule = CosineAnnealingLR(self.optimizer, steps)
        self.average = Averager(model)
        self.meter = Meter()

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self.model(x), y, label_smoothing=0.05)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.average.update(self.model)
        self.meter.add(loss)
        return loss.detach()


def build(device):
    torch.manual_seed(0)
    trainer = Trainer(Classifier(10, 3).to(device))
    x = torch.randn(32, 10, device=device)
    y = torch.randint(0, 3, (32,), device=device)
    return trainer.train_step, (x, y)
