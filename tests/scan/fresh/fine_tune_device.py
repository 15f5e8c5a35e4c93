"""Fine-tuning with a captured training step whose rate is a device tensor."""
import torch
import torch.nn.functional as F
from torch import nn


class Cosine:
    """All rates are computed ahead and copied on the device."""

    def __init__(self, lr, base, total):
        steps = torch.arange(total, device=lr.device)
        self.lr = lr
        self.table = 0.5 * base * (1 + torch.cos(torch.pi * steps / total))

    def at(self, step):
        self.lr.copy_(self.table[step])


class GraphedStep:
    def __init__(self, net, opt, x, y):
        self.net, self.opt, self.x, self.y = net, opt, x, y
        self.stream = torch.cuda.Stream(x.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._work()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.loss = self._work()

    def _work(self):
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def __call__(self, x, y):
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss


def fit(device, steps=100):
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    lr = torch.tensor(0.01, device=device)
    opt = torch.optim.Adam(net.parameters(), lr=lr, capturable=True)
    step = GraphedStep(net, opt, torch.randn(16, 8, device=device), torch.randint(0, 4, (16,), device=device))
    cosine, smooth = Cosine(lr, 0.01, steps), torch.zeros((), device=device)
    data = torch.randn(steps, 16, 8, device=device)
    for i in range(steps):
        cosine.at(i)
        loss = step(data[i], (data[i].sum(-1) > 0).long())
        smooth.lerp_(loss, 0.1)
    return smooth.item()


if __name__ == "__main__":
    print(fit(torch.device("cuda:0")))
