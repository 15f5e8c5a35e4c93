import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def backbone(dim, classes):
    return nn.Sequential(
        nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(64, classes),
    )


class Distiller:
    """Self-distillation: the teacher is refreshed from the student now and then."""

    def __init__(self, device, dim=16, classes=8, batch=32):
        torch.manual_seed(5)
        self.device = device
        self.student = backbone(dim, classes).to(device)
        self.teacher = backbone(dim, classes).to(device).eval().requires_grad_(False)
        self.teacher.load_state_dict(self.student.state_dict())
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.05)
        self.x = torch.zeros(batch, dim, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.train_graph = torch.cuda.CUDAGraph()
        self.predict_graph = torch.cuda.CUDAGraph()

    def _train(self):
        self.optimizer.zero_grad(set_to_none=False)
        soft = self.teacher(self.x).softmax(-1)
        logits = self.student(self.x)
        loss = F.cross_entropy(logits, self.y) + F.cross_entropy(logits, soft)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._train()
                self.student(self.x)
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.train_graph):
            self.loss = self._train()
        with torch.no_grad(), torch.cuda.graph(self.predict_graph):
            self.logits = self.student(self.x)

    def refresh_teacher(self):
        weights = copy.deepcopy(self.student.state_dict())
        self.teacher.load_state_dict(weights, assign=True)

    def fit(self, xs, ys, refresh_every=8):
        for i in range(xs.shape[0]):
            self.x.copy_(xs[i])
            self.y.copy_(ys[i])
            self.train_graph.replay()
            if (i + 1) % refresh_every == 0:
                self.refresh_teacher()

    def predict(self, xs):
        self.student.eval()
        answers = torch.empty(xs.shape[0], xs.shape[1], device=self.device, dtype=torch.long)
        for i in range(xs.shape[0]):
            self.x.copy_(xs[i])
            self.predict_graph.replay()
            answers[i].copy_(self.logits.argmax(-1))
        self.student.train()
        return answers


def main():
    device = torch.device("cuda")
    distiller = Distiller(device)
    distiller.capture()
    xs = torch.randn(24, 32, 16, device=device)
    ys = xs[..., :8].argmax(-1)
    distiller.fit(xs, ys)
    answers = distiller.predict(xs[:4])
    accuracy = (answers == ys[:4]).float().mean()
    print(f"accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
