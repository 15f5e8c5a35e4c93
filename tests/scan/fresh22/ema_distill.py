import torch
from torch import nn


def net():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


class Distiller:
    def __init__(self, device):
        self.student, self.teacher = net().to(device), net().to(device)
        self.opt = torch.optim.AdamW(self.student.parameters(), lr=1e-3, capturable=True)
        self.x = torch.zeros(8, 8, device=device)
        self.weight = 0.1
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def _step(self):
        self.opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            goal = self.teacher(self.x)
        y = self.student(self.x)
        loss = (y - goal).square().mean() + self.weight * y.abs().mean()
        loss.backward()
        self.opt.step()
        return loss

    @torch.no_grad()
    def ema(self, decay):
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.data = t.data * decay + s.data * (1 - decay)


def main(device="cuda"):
    torch.manual_seed(13)
    d = Distiller(device)
    running = 0.0
    for step in range(10):
        d.weight = 0.1 + 0.05 * step
        d.x.copy_(torch.randn(8, 8, device=device))
        d.graph.replay()
        d.ema(0.9)
        running = 0.9 * running + 0.1 * d.loss.item()
    print(running)


if __name__ == "__main__":
    main()
