"""Self-distillation step: student on the strong view, averaged teacher on the weak one."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, d=64, out=32):
        super().__init__()
        self.a = nn.Linear(d, 128)
        self.b = nn.Linear(128, out)

    def forward(self, x):
        return self.b(F.gelu(self.a(x)))


class Averager:
    """Keeps the teacher's tensors by name, the way the checkpoints store them."""

    def __init__(self, student, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in student.named_parameters()}

    def blend(self, student, momentum):
        for n, p in student.named_parameters():
            self.shadow[n] = self.shadow[n] * momentum + p.detach() * (1.0 - momentum)

    def apply(self, student, x):
        return torch.func.functional_call(student, self.shadow, (x,))


class Centre:
    def __init__(self, out, device, rate=0.9):
        self.value = torch.zeros(out, device=device)
        self.rate = rate

    def update(self, t):
        self.value.lerp_(t.mean(0), 1 - self.rate)


class Distiller:
    def __init__(self, student, device, lr=0.1):
        self.student = student
        self.teacher = Averager(student)
        self.centre = Centre(32, device)
        self.lr = lr
        self.seen = 0
        self.salt = 77
        self.skipped = torch.zeros((), device=device)

    def momentum(self):
        return min(self.teacher.decay, (1 + self.seen) / (10 + self.seen))

    def jitter(self, x):
        torch.manual_seed(self.salt)
        return x + 0.05 * torch.randn_like(x)

    def loss(self, weak, strong):
        with torch.no_grad():
            t = self.teacher.apply(self.student, self.jitter(weak))
            target = ((t - self.centre.value) / 0.07).softmax(-1)
            self.centre.update(t)
        return F.cross_entropy(self.student(strong) / 0.1, target)

    def __call__(self, weak, strong):
        loss = self.loss(weak, strong)
        params = list(self.student.parameters())
        grads = torch.autograd.grad(loss, params)
        norm = torch.stack([g.norm() for g in grads]).norm()
        with torch.no_grad():
            if torch.isfinite(norm):
                for p, g in zip(params, grads):
                    p.sub_(g * (self.lr / (norm + 1.0)))
            else:
                self.skipped.add_(1)
            self.teacher.blend(self.student, self.momentum())
        self.seen += 1
        return loss.detach()


def build(device):
    torch.manual_seed(2)
    step = Distiller(Backbone().to(device), device)
    weak = torch.randn(96, 64, device=device)
    return step, (weak, weak + 0.2 * torch.randn_like(weak))
