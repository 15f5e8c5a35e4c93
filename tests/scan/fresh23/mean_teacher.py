import copy
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

hp = SimpleNamespace(batch=16, dim=20, classes=12, steps=18, ema=0.99, refresh_every=6, lr=0.05)


def mlp(dim, classes, width):
    return nn.Sequential(
        nn.Linear(dim, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, width), nn.GELU(), nn.Linear(width, classes)
    )


class MeanTeacher:
    def __init__(self, student):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False).eval()
        self.updates = 0

    @torch.no_grad()
    def update(self):
        self.updates += 1
        decay = min(hp.ema, (1 + self.updates) / (10 + self.updates))
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.lerp_(s, 1.0 - decay)


class Nesterov:
    """SGD with Nesterov momentum over one flat parameter vector."""

    def __init__(self, params, lr, momentum=0.9):
        self.params = list(params)
        self.lr, self.momentum = lr, momentum
        self.velocity = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        grads = [p.grad for p in self.params]
        torch._foreach_mul_(self.velocity, self.momentum)
        torch._foreach_add_(self.velocity, grads)
        look = torch._foreach_mul(self.velocity, self.momentum)
        torch._foreach_add_(look, grads)
        torch._foreach_add_(self.params, look, alpha=-self.lr)
        torch._foreach_zero_(grads)


class DistillRun:
    def __init__(self, device):
        torch.manual_seed(0)
        self.device = device
        self.student = mlp(hp.dim, hp.classes, 32).to(device)
        self.mean = MeanTeacher(self.student)
        self.opt = Nesterov(self.student.parameters(), hp.lr)
        self.x = torch.zeros(hp.batch, hp.dim, device=device)
        self.y = torch.zeros(hp.batch, dtype=torch.long, device=device)
        self.alpha = 0.0
        self.logits = None

    def objective(self):
        self.logits = self.student(self.x)
        soft = F.softmax(self.mean.teacher(self.x) / 2.0, dim=-1)
        kd = F.kl_div(F.log_softmax(self.logits / 2.0, dim=-1), soft, reduction="batchmean")
        hard = F.cross_entropy(self.logits, self.y)
        return hard if self.alpha == 0.0 else (1 - self.alpha) * hard + self.alpha * kd

    def step(self):
        loss = self.objective()
        loss.backward()
        self.opt.step()
        self.mean.update()
        return loss.detach()

    def record(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self.step()

    def anchor_teacher(self):
        """Start the teacher again from the current student."""
        self.mean.teacher = copy.deepcopy(self.student).requires_grad_(False).eval()

    def train(self, data):
        before = None
        for step in range(hp.steps):
            x, y = data(step)
            self.x.copy_(x)
            self.y.copy_(y)
            self.alpha = 0.0 if step < hp.refresh_every else 0.6
            self.graph.replay()
            if step and step % hp.refresh_every == 0:
                self.anchor_teacher()
                before = self.logits.detach().softmax(-1).mean(0), self.loss
        usage, loss = before
        return (self.logits.detach().softmax(-1).mean(0) - usage).abs().sum(), self.loss - loss


def stream_of(device):
    gen = torch.Generator(device=device).manual_seed(21)
    proj = torch.randn(hp.dim, hp.classes, generator=gen, device=device)

    def data(step):
        x = torch.randn(hp.batch, hp.dim, generator=gen, device=device)
        return x, (x @ proj).argmax(-1)

    return data


def main():
    device = torch.device("cuda")
    run = DistillRun(device)
    run.record()
    shift, change = run.train(stream_of(device))
    print(f"class usage moved by {shift.item():.4f}, loss by {change.item():.4f} since the last anchor")


if __name__ == "__main__":
    main()
