"""Trains an encoder of signatures on pairs; the encoder is a graphed callable."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SIDE, WIDTH = 16, 12, 24


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.line = nn.Linear(8 * SIDE * SIDE // 4, WIDTH)

    def forward(self, image):
        hidden = F.avg_pool2d(self.conv(image).relu(), 2)
        return F.normalize(self.line(hidden.flatten(1)), dim=-1)


def contrastive(a, b, same, margin=0.6):
    distance = (a - b).square().sum(-1)
    return torch.where(same, distance, (margin - distance.clamp(min=1e-6).sqrt()).clamp(min=0).square()).mean()


class PairTrainer:
    def __init__(self):
        self.raw = Encoder().cuda()
        sample = torch.randn(BATCH, 1, SIDE, SIDE, device="cuda")
        self.encoder = torch.cuda.make_graphed_callables(self.raw, (sample,))
        self.opt = torch.optim.SGD(self.raw.parameters(), lr=0.05, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(self.opt, patience=4)
        self.memory = []

    def step(self, left, right, same):
        self.opt.zero_grad(set_to_none=True)
        a = self.encoder(left)
        b = self.encoder(right)
        loss = contrastive(a, b, same)
        loss.backward()
        self.opt.step()
        self.schedule.step(loss.detach())
        self.memory.append(b.detach())
        return loss.detach()


def pairs(count):
    """Noisy pairs of a few shapes."""
    shapes = torch.randn(6, 1, SIDE, SIDE, device="cuda")
    for _ in range(count):
        first = torch.randint(0, 6, (BATCH,), device="cuda")
        second = torch.where(torch.rand(BATCH, device="cuda") < 0.5, first, (first + 1) % 6)
        noise = 0.3 * torch.randn(2, BATCH, 1, SIDE, SIDE, device="cuda")
        yield shapes[first] + noise[0], shapes[second] + noise[1], first == second


def main():
    torch.manual_seed(7)
    trainer = PairTrainer()
    losses = [trainer.step(*pair) for pair in pairs(40)]
    codes = torch.cat(trainer.memory[-8:])
    torch.save({"losses": torch.stack(losses).cpu(), "spread": codes.std(0).cpu()}, "signatures.pt")


if __name__ == "__main__":
    main()
