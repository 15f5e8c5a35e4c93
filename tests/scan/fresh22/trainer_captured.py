import torch
from torch import nn
import torch.nn.functional as F


class CapturedTrainer:
    def __init__(self, model, lr, device):
        self.model = model
        self.lr = lr
        self.momentum = [torch.zeros_like(p) for p in model.parameters()]
        self.x = torch.zeros(16, 10, device=device)
        self.y = torch.zeros(16, 1, device=device)
        self.graph = None

    def _step(self):
        loss = F.mse_loss(self.model(self.x), self.y)
        grads = torch.autograd.grad(loss, list(self.model.parameters()))
        with torch.no_grad():
            for p, g, m in zip(self.model.parameters(), grads, self.momentum):
                m.mul_(0.9).add_(g)
                p.add_(m, alpha=-self.lr)
        return loss

    def capture(self):
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def fit_batch(self, x, y):
        self.x.copy_(x)
        self.y = y
        self.graph.replay()
        return self.loss


def cosine(step, total, base):
    return base * 0.5 * (1 + torch.cos(torch.tensor(3.14159 * step / total)).item())


def main(device="cuda"):
    torch.manual_seed(0)
    t = CapturedTrainer(nn.Linear(10, 1).to(device), 0.05, device)
    t.capture()
    history = []
    for step in range(12):
        t.lr = cosine(step, 12, 0.05)
        x = torch.randn(16, 10, device=device)
        loss = t.fit_batch(x, x.sum(1, keepdim=True))
        history.append(loss.detach())
    print(torch.stack(history).mean())


if __name__ == "__main__":
    main()
