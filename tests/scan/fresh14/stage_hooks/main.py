"""Fine-tunes a small classifier in two stages."""

import torch
import torch.nn as nn
from hooks import DropoutSchedule, Freeze, History, StepTime
from trainer import Trainer

STEPS, WIDTH, CLASSES = 60, 20, 4


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.head(self.drop(self.body(x)))


def batches():
    for _ in range(STEPS):
        x = torch.randn(32, WIDTH, device="cuda")
        yield x, x[:, :CLASSES].argmax(1)


def main():
    torch.manual_seed(23)
    model = Classifier().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    history = History(STEPS)
    hooks = [Freeze(at=30), DropoutSchedule(0.3, 40), StepTime(), history]
    trainer = Trainer(model, optimizer, hooks)
    trainer.capture()
    trainer.fit(batches())
    torch.save({"model": model.state_dict(), "losses": history.losses}, "tuned.pt")


if __name__ == "__main__":
    main()
