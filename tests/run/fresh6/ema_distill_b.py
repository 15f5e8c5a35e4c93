"""Self-distillation: the student's step is captured, the teacher follows it as a moving average.

The teacher moves where it lies.  A third network gets new storage at every snapshot: no graph knows it.
"""
import torch
import torch.nn.functional as F

DEV = torch.device("cuda")
FEAT, HID, CLASSES, BATCH, STEPS, LR, DECAY = 40, 96, 10, 32, 18, 0.3, 0.6


def net():
    return torch.nn.Sequential(torch.nn.Linear(FEAT, HID), torch.nn.Tanh(), torch.nn.Linear(HID, CLASSES)).to(DEV)


def distill(student, teacher, x, y):
    """One SGD step on labels and on what the teacher says."""
    weights = list(student.parameters())
    logits = student(x)
    with torch.no_grad():
        target = F.softmax(teacher(x) * 2.0, dim=-1)
    loss = F.cross_entropy(logits, y) + 2.0 * F.cross_entropy(logits, target)
    grads = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for w, g in zip(weights, grads):
            w.sub_(g, alpha=LR)
    return loss.detach()


class Average:
    """Holds a teacher and moves it towards the student."""

    def __init__(self, teacher, decay):
        self.teacher = teacher.requires_grad_(False)
        self.decay = decay

    def follow(self, student):
        for old, new in zip(self.teacher.parameters(), student.parameters()):
            old.data.lerp_(new.data, 1.0 - self.decay)

    def snapshot(self, shelf):
        for kept, now in zip(shelf.parameters(), self.teacher.parameters()):
            kept.data = now.data.clone()


class Step:
    def __init__(self, student, teacher):
        self.x = torch.zeros(BATCH, FEAT, device=DEV)
        self.y = torch.zeros(BATCH, dtype=torch.long, device=DEV)
        saved = {k: v.clone() for k, v in student.state_dict().items()}
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                distill(student, teacher, self.x, self.y)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = distill(student, teacher, self.x, self.y)
        student.load_state_dict(saved)

    def __call__(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss.clone()


def main():
    torch.manual_seed(3)
    student, teacher, student2, teacher2 = net(), net(), net(), net()
    shelf = net()
    student2.load_state_dict(student.state_dict())
    teacher2.load_state_dict(teacher.state_dict())
    data = [(torch.randn(BATCH, FEAT).to(DEV), torch.randint(CLASSES, (BATCH,)).to(DEV)) for _ in range(STEPS)]

    average, step, losses = Average(teacher, DECAY), Step(student, teacher), []
    for n, (x, y) in enumerate(data):
        losses.append(step(x, y))
        average.follow(student)
        if n % 4 == 1:
            average.snapshot(shelf)

    torch.cuda.synchronize()
    average2, want = Average(teacher2, DECAY), []
    for n, (x, y) in enumerate(data):
        want.append(distill(student2, teacher2, x, y))
        average2.follow(student2)
    good = torch.allclose(torch.stack(losses), torch.stack(want), rtol=1e-3, atol=1e-4)
    good = good and all(torch.allclose(a, b, rtol=1e-2, atol=1e-4) for a, b in zip(teacher.parameters(), teacher2.parameters()))
    good = good and torch.allclose(shelf[0].weight, teacher[0].weight)      # the last step took one
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
