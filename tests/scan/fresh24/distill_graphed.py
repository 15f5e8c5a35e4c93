"""Distillation of an image classifier with graphed callables and an averaged student."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def classifier(width, classes=6):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU(), nn.AvgPool2d(2),
        nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU(), nn.AvgPool2d(4),
        nn.Flatten(), nn.Linear(width, classes),
    )


class Augment:
    """Shifts and noise, drawn on the device into tensors of one size."""

    def __init__(self, reach, noise):
        self.reach, self.noise = reach, noise

    def __call__(self, images):
        n, _, h, w = images.shape
        offset = (torch.rand(n, 2, device=images.device) * 2 - 1) * self.reach
        rows = torch.arange(h, device=images.device) + offset[:, :1].round()
        cols = torch.arange(w, device=images.device) + offset[:, 1:].round()
        flat = rows.clamp(0, h - 1).long().unsqueeze(2) * w + cols.clamp(0, w - 1).long().unsqueeze(1)
        moved = images.flatten(1).gather(1, flat.flatten(1)).view_as(images)
        return moved + self.noise * torch.randn_like(moved)


class ImagePool:
    """A data set that fits on the device; batches are drawn with replacement."""

    def __init__(self, count, side, classes, device):
        self.device = device
        self.labels = torch.randint(classes, (count,), device=device)
        pattern = torch.randn(classes, 1, side, side, device=device)
        self.images = pattern[self.labels] + 0.5 * torch.randn(count, 1, side, side, device=device)

    def draw(self, batch):
        rows = torch.randint(self.images.shape[0], (batch,), device=self.device)
        return self.images[rows], self.labels[rows]


class WeightAverage:
    def __init__(self, module, decay):
        self.module = copy.deepcopy(module).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def follow(self, module):
        slow, fast = list(self.module.parameters()), list(module.parameters())
        torch._foreach_lerp_(slow, fast, 1 - self.decay)


class TeacherGraph:
    """The frozen teacher on a static batch."""

    def __init__(self, teacher, example):
        self.images = example.clone()
        stream = torch.cuda.Stream(example.device)
        stream.wait_stream(torch.cuda.current_stream(example.device))
        with torch.no_grad(), torch.cuda.stream(stream):
            teacher(self.images)
        torch.cuda.current_stream(example.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.logits = teacher(self.images)

    def __call__(self, images):
        self.images.copy_(images)
        self.graph.replay()
        return self.logits


class Distillation:
    def __init__(self, teacher, student, batch, pool, temperature=3.0, mix=0.7):
        self.pool, self.batch = pool, batch
        self.temperature, self.mix = temperature, mix
        self.average = WeightAverage(student, 0.98)
        example, _ = pool.draw(batch)
        self.teacher = TeacherGraph(teacher, example)
        self.augment = Augment(2, 0.05)
        self.optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
        self.student = torch.cuda.make_graphed_callables(student, (example.clone(),))
        self.losses = []

    def step(self):
        images, labels = self.pool.draw(self.batch)
        images = self.augment(images)
        wanted = (self.teacher(images) / self.temperature).softmax(-1)
        logits = self.student(images)
        soft = F.kl_div((logits / self.temperature).log_softmax(-1), wanted, reduction="batchmean")
        loss = self.mix * self.temperature ** 2 * soft + (1 - self.mix) * F.cross_entropy(logits, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.average.follow(self.student)
        self.losses.append(loss.detach())

    @torch.no_grad()
    def accuracy(self):
        guess = self.average.module(self.pool.images).argmax(-1)
        return (guess == self.pool.labels).float().mean().item()


def fit_teacher(teacher, pool, steps):
    optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for _ in range(steps):
        images, labels = pool.draw(64)
        optimizer.zero_grad()
        F.cross_entropy(teacher(images), labels).backward()
        optimizer.step()
    return teacher.requires_grad_(False).eval()


def main():
    device = torch.device("cuda", 0)
    torch.manual_seed(5)
    pool = ImagePool(256, 8, 6, device)
    teacher = fit_teacher(classifier(16).to(device), pool, 20)
    run = Distillation(teacher, classifier(8).to(device), 32, pool)
    for _ in range(40):
        run.step()
    first, last = torch.stack(run.losses).view(2, -1).mean(1).tolist()
    print(f"loss {first:.3f} -> {last:.3f}, accuracy of the average {run.accuracy():.3f}")


if __name__ == "__main__":
    main()
