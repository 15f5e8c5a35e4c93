# AdamW, EMA and loss scaling written out by hand; the whole update is one graph.
import torch
import torch.nn as nn


class HandAdamW:
    def __init__(self, params, lr, betas=(0.9, 0.95), eps=1e-8, decay=0.01):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.decay = lr, betas, eps, decay
        self.t = 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        self.t += 1
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        for p, m, v in zip(self.params, self.m, self.v):
            m.mul_(b1).add_(p.grad, alpha=1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            p.mul_(1 - self.lr * self.decay)
            p.addcdiv_(m / c1, (v / c2).sqrt_().add_(self.eps), value=-self.lr)


class Averager:
    def __init__(self, net, rate):
        self.rate = rate
        self.shadow = {k: p.detach().clone() for k, p in net.named_parameters()}

    @torch.no_grad()
    def update(self, net):
        for k, p in net.named_parameters():
            self.shadow[k] = self.shadow[k] * self.rate + p * (1 - self.rate)


class Loop:
    def __init__(self, net, device):
        self.net = net
        self.x = torch.zeros(8, 5, device=device)
        self.y = torch.zeros(8, 2, device=device)
        self.opt = HandAdamW(net.parameters(), lr=1e-3)
        self.ema = Averager(net, 0.9)
        self.stream = torch.cuda.Stream(device)

    def body(self):
        for p in self.opt.params:
            if p.grad is not None:
                p.grad.zero_()
        loss = (self.net(self.x) - self.y).pow(2).mean()
        loss.backward()
        self.opt.step()
        self.ema.update(self.net)
        return loss.detach()

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.body()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.g, stream=self.stream):
            self.loss = self.body()

    def train(self, batches, warm):
        best = None
        trace = []
        for i, (x, y) in enumerate(batches):
            self.opt.lr = 1e-2 * min(1.0, (i + 1) / warm)
            self.x.copy_(x, non_blocking=True)
            self.y.copy_(y, non_blocking=True)
            self.g.replay()
            trace.append(self.loss.clone())
            if best is None or self.loss < best:
                best = self.loss
        return best, torch.stack(trace)


def main():
    device = torch.device("cuda")
    torch.manual_seed(9)
    net = nn.Sequential(nn.Linear(5, 12), nn.SiLU(), nn.Linear(12, 2)).to(device)
    loop = Loop(net, device)
    loop.capture()
    w = torch.randn(5, 2)
    batches = []
    for _ in range(15):
        x = torch.randn(8, 5)
        batches.append((x.pin_memory(), (x @ w).pin_memory()))
    best, trace = loop.train(batches, warm=5)
    print(best.item(), trace.tolist())


if __name__ == "__main__":
    main()
