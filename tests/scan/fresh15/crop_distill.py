"""Distils a teacher into a student with one graph a step; a curriculum changes both while training goes on."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, SIDE, CLASSES = 16, 24, 7


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3))
        self.head = nn.Linear(12 * 11 * 11, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class DistillStep:
    def __init__(self, student, teacher):
        self.student, self.teacher = student, teacher
        self.params = list(student.parameters())
        self.x = torch.zeros(BATCH, 3, SIDE, SIDE, device="cuda")
        self.weight = torch.ones(CLASSES, device="cuda")
        self.opt = torch.optim.SGD(self.params, lr=1e-2)
        self.graph = torch.cuda.CUDAGraph()

    def train(self):
        self.opt.zero_grad(set_to_none=False)
        with torch.no_grad():
            goal = self.teacher(self.x).softmax(-1) * self.weight
        loss = F.cross_entropy(self.student(self.x), goal)
        loss.backward()
        self.opt.step()
        return loss

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.loss = self.train()

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()


class Curriculum:
    def __init__(self, step, settle_at):
        self.step = step
        self.settle_at = settle_at

    def at(self, number):
        if number == self.settle_at:
            self.step.student.eval()
        if number % 12 == 11:
            hard = 1.0 + torch.rand(CLASSES, device="cuda")
            self.step.weight = hard / hard.mean()


def pictures(count):
    for _ in range(count):
        yield torch.rand(BATCH, 3, SIDE, SIDE, device="cuda")


def main():
    torch.manual_seed(28)
    teacher = Student().cuda().eval()
    step = DistillStep(Student().cuda(), teacher)
    step.record()
    curriculum = Curriculum(step, settle_at=30)
    losses = torch.zeros(48, device="cuda")
    for number, x in enumerate(pictures(48)):
        curriculum.at(number)
        step(x)
        torch.cuda.synchronize()
        losses[number].copy_(step.loss.detach())
    torch.save(losses.cpu(), "losses.pt")


if __name__ == "__main__":
    main()
