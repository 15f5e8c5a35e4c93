"""Trainer whose captured step begins with the upload of its batch from page-locked memory."""
import torch
import torch.nn.functional as F

DEV = torch.device("cuda")
BATCH, FEAT, WIDTH, DEPTH, STEPS, LR = 128, 64, 1024, 32, 16, 0.02


class TiedNet(torch.nn.Module):
    """One wide layer applied over and over: few weights, long steps."""

    def __init__(self):
        super().__init__()
        self.enter = torch.nn.Linear(FEAT, WIDTH)
        self.core = torch.nn.Linear(WIDTH, WIDTH)
        self.leave = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.enter(x)
        for _ in range(DEPTH):
            h = h + torch.tanh(self.core(h)) / DEPTH
        return self.leave(h)


def sgd_step(net, x, y):
    weights = list(net.parameters())
    loss = F.mse_loss(net(x), y)
    grads = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for w, g in zip(weights, grads):
            w.sub_(g, alpha=LR)
    return loss.detach()


def batches():
    g = torch.Generator().manual_seed(9)
    for n in range(STEPS):
        x = torch.randn(BATCH, FEAT, generator=g)
        yield x, x[:, :1] * 0.5 + float(n % 5)


class Trainer:
    def __init__(self, net):
        self.host_x = torch.zeros(BATCH, FEAT, pin_memory=True)
        self.host_y = torch.zeros(BATCH, 1, pin_memory=True)
        self.x = torch.zeros(BATCH, FEAT, device=DEV)
        self.y = torch.zeros(BATCH, 1, device=DEV)
        start = [w.detach().clone() for w in net.parameters()]
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            sgd_step(net, self.x, self.y)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.x.copy_(self.host_x, non_blocking=True)
            self.y.copy_(self.host_y, non_blocking=True)
            self.loss = sgd_step(net, self.x, self.y)
        with torch.no_grad():
            for w, value in zip(net.parameters(), start):
                w.copy_(value)

    def step(self, x, y):
        self.host_x.copy_(x)
        self.host_y.copy_(y)
        self.graph.replay()


def main():
    torch.manual_seed(2)
    net = TiedNet().to(DEV)
    twin = TiedNet().to(DEV)
    twin.load_state_dict(net.state_dict())
    data = list(batches())
    trainer = Trainer(net)
    losses = torch.zeros(STEPS, device=DEV)
    torch.cuda.synchronize()

    for n, (x, y) in enumerate(data):
        trainer.step(x, y)
        losses[n].copy_(trainer.loss)

    torch.cuda.synchronize()
    want = torch.stack([sgd_step(twin, x.to(DEV), y.to(DEV)) for x, y in data])
    print("values right" if torch.allclose(losses, want, rtol=2e-2, atol=1e-3) else "values wrong")


if __name__ == "__main__":
    main()
