"""The loop moves each batch to the device and assigns it to the trainer, instead of copying into static buffers."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Linear(28, 6)).to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3, capturable=True)
        self.batch = None

    def feed(self, batch):
        self.batch = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}

    def train_step(self):
        self.opt.zero_grad(set_to_none=True)
        logits = self.model(self.batch["x"])
        loss = F.cross_entropy(logits, self.batch["y"])
        loss.backward()
        self.opt.step()
        return loss.detach(), logits.detach()


def loader(n=8):
    while True:
        yield {"x": torch.randn(n, 14), "y": torch.randint(0, 6, (n,))}


def build(device):
    trainer = Trainer(device)
    batches = loader()
    trainer.feed(next(batches))
    return graphsafe.Step(trainer.train_step, refresh=lambda a, kw, k: trainer.feed(next(batches)))
