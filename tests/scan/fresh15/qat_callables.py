"""Training with fake quantisation; the blocks are graphed callables, and observers set their scales between steps."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, WIDTH = 32, 24


class FakeQuant(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 0.05

    def forward(self, x):
        rounded = torch.round(x / self.scale).clamp(-127, 127) * self.scale
        return x + (rounded - x).detach()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = FakeQuant()
        self.body = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.body(self.quant(x))


class Observer:
    """Follows the largest activation of a block and sets the scale of its quantiser."""

    def __init__(self, block, rate=0.1):
        self.block = block
        self.rate = rate
        self.top = torch.zeros((), device="cuda")

    def see(self, x):
        self.top.lerp_(x.detach().abs().amax(), self.rate)

    def apply(self):
        top = float(self.top)
        self.block.quant.scale = max(top, 1e-3) / 127


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.out = nn.Linear(WIDTH, 1)


def make():
    net = Net().cuda()
    sample = torch.randn(BATCH, WIDTH, device="cuda", requires_grad=True)
    observers = [Observer(net.first), Observer(net.second)]
    net.first, net.second = torch.cuda.make_graphed_callables(
        (net.first, net.second), ((sample,), (sample.detach().clone().requires_grad_(),))
    )
    return net, observers


def main():
    torch.manual_seed(23)
    net, observers = make()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(40):
        x = torch.randn(BATCH, WIDTH, device="cuda", requires_grad=True)
        hidden = net.first(x)
        deep = net.second(hidden)
        loss = F.mse_loss(net.out(deep).squeeze(-1), x.detach().sum(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        observers[0].see(x)
        observers[1].see(hidden)
        if step % 5 == 4:
            for observer in observers:
                observer.apply()
    torch.save(net.state_dict(), "qat.pt")


if __name__ == "__main__":
    main()
