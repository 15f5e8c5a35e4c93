"""SpecAugment-style feature extractor for self-supervised speech training."""
import random

import torch
import torch.nn as nn


class GainJitter(nn.Module):
    def __init__(self, low_db: float, high_db: float):
        super().__init__()
        self.low_db, self.high_db = low_db, high_db

    def forward(self, spec):
        gain = 10 ** (random.uniform(self.low_db, self.high_db) / 20)
        return spec * gain


class Whiten(nn.Module):
    def forward(self, spec):
        mean = spec.mean(-1, keepdim=True)
        return (spec - 0.5 * mean) / (1.0 + spec.std(-1, keepdim=True))


class Pipeline(nn.Module):
    def __init__(self, *steps: nn.Module):
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, spec):
        for step in self.steps:
            spec = step(spec)
        return spec


class Student(nn.Module):
    def __init__(self, mels: int, width: int):
        super().__init__()
        self.front = Pipeline(GainJitter(-12.0, 12.0), Whiten())
        self.conv = nn.Conv1d(mels, width, 3, padding=1)
        self.out = nn.Linear(width, 10)

    def forward(self, spec):
        h = torch.relu(self.conv(self.front(spec)))
        return self.out(h.mean(-1))


def build(device):
    torch.manual_seed(24)
    student = Student(mels=20, width=32).to(device)
    student.requires_grad_(False)
    spec = torch.randn(4, 20, 50, device=device)
    return student, (spec,)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args).norm().item())
