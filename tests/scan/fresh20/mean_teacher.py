"""Semi-supervised mean-teacher training: forward+backward and the teacher update are graphs, the optimizer is eager."""
import torch
from torch import nn
import torch.nn.functional as F


def mlp():
    return nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 6))


class Loader:
    """Copies the next batch on its own stream while the current one trains."""

    def __init__(self, batches, static, device):
        self.batches = [(x.pin_memory(), y.pin_memory()) for x, y in batches]
        self.static = static
        self.lane = torch.cuda.Stream(device)

    def push(self, k):
        x, y = self.batches[k]
        with torch.cuda.stream(self.lane):
            self.static["x"].copy_(x, non_blocking=True)
            self.static["y"].copy_(y, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.lane)


class MeanTeacher:
    def __init__(self, device, batch=16):
        self.student, self.teacher = mlp().to(device), mlp().to(device)
        self.teacher.load_state_dict(self.student.state_dict())
        self.teacher.requires_grad_(False)
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9)
        self.static = {
            "x": torch.zeros(batch, 20, device=device),
            "y": torch.zeros(batch, dtype=torch.long, device=device),
        }
        self.decay = 0.1
        self.device = device

    def losses(self):
        x, y = self.static["x"], self.static["y"]
        logits = self.student(x)
        with torch.no_grad():
            soft = self.teacher(x).softmax(-1)
        loss = F.cross_entropy(logits, y) + F.kl_div(logits.log_softmax(-1), soft, reduction="batchmean")
        loss.backward()
        return loss.detach()

    @torch.no_grad()
    def ema(self):
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.mul_(self.decay).add_(s, alpha=1 - self.decay)

    def build(self):
        lane = torch.cuda.Stream(self.device)
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self.losses()
                self.ema()
        torch.cuda.current_stream().wait_stream(lane)
        self.opt.zero_grad(set_to_none=True)
        self.g_loss, self.g_ema = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.g_loss, stream=lane):
            self.loss = self.losses()
        with torch.cuda.graph(self.g_ema, stream=lane):
            self.ema()

    def train(self, loader, epochs, per_epoch):
        step, running = 0, torch.zeros((), device=self.device)
        for epoch in range(epochs):
            for k in range(per_epoch):
                loader.push(k)
                self.g_loss.replay()
                self.opt.step()
                self.opt.zero_grad()
                self.decay = min(0.99, (1 + step) / (10 + step))
                self.g_ema.replay()
                running += self.loss
                step += 1
            self.evaluate(loader)
        return running / step

    @torch.no_grad()
    def evaluate(self, loader):
        mine = [p.data for p in self.student.parameters()]
        for p, t in zip(self.student.parameters(), self.teacher.parameters()):
            p.data = t.data
        correct = (self.student(self.static["x"]).argmax(-1) == self.static["y"]).sum()
        for p, data in zip(self.student.parameters(), mine):
            p.data = data
        self.last_correct = correct


def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    mt = MeanTeacher(device)
    mt.build()
    data = [(torch.randn(16, 20), torch.randint(0, 6, (16,))) for _ in range(5)]
    loss = mt.train(Loader(data, mt.static, device), 3, 5)
    print(loss.item(), mt.last_correct.item())


if __name__ == "__main__":
    main()
