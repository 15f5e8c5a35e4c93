"""Trains an encoder of signatures on pairs; both halves of a pair go through the graphed callable at once."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SIDE, WIDTH, KEPT = 16, 12, 24, 8


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
        sample = torch.randn(2 * BATCH, 1, SIDE, SIDE, device="cuda")
        self.encoder = torch.cuda.make_graphed_callables(self.raw, (sample,))
        self.opt = torch.optim.SGD(self.raw.parameters(), lr=0.05, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.opt, step_size=15, gamma=0.5)
        self.memory = torch.zeros(KEPT, BATCH, WIDTH, device="cuda")

    def step(self, number, left, right, same):
        self.opt.zero_grad(set_to_none=True)
        a, b = self.encoder(torch.cat((left, right))).chunk(2)
        loss = contrastive(a, b, same)
        loss.backward()
        self.opt.step()
        self.schedule.step()
        self.memory[number % KEPT].copy_(b.detach())
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
    losses = [trainer.step(number, *pair) for number, pair in enumerate(pairs(40))]
    spread = trainer.memory.flatten(0, 1).std(0)
    torch.save({"losses": torch.stack(losses).cpu(), "spread": spread.cpu()}, "signatures.pt")


if __name__ == "__main__":
    main()
