"""Training with the whole step in a graph and batches fetched on a copy stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")
BATCH, WIDTH, LAYERS, STEPS = 256, 1024, 8, 40


class Dataset:
    """Batches in pinned memory, one tensor each."""

    def __init__(self, steps, seed):
        gen = torch.Generator().manual_seed(seed)
        truth = torch.randn(WIDTH, 8, generator=gen) / WIDTH**0.5
        self.items = []
        for i in range(steps):
            x = torch.randn(BATCH, WIDTH, generator=gen) * (1.0 + 0.5 * (i % 4))
            self.items.append((x.pin_memory(), (x @ truth).pin_memory()))

    def __iter__(self):
        return iter(self.items)


def build(seed):
    torch.manual_seed(seed)
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(WIDTH, 8)).to(device)
    return net, torch.optim.SGD(net.parameters(), lr=0.01)


class Fetcher:
    """Copies a batch into the step's inputs on a stream of its own.

    Used as `with fetcher.batch(x, y):` around the work that uses the batch.
    """

    def __init__(self, x, y):
        self.x, self.y = x, y
        self.stream = torch.cuda.Stream()
        self.used = torch.cuda.Event()
        self.used.record()

    def batch(self, x, y):
        self.pending = (x, y)
        return self

    def __enter__(self):
        x, y = self.pending
        self.stream.wait_event(self.used)
        with torch.cuda.stream(self.stream):
            self.x.copy_(x, non_blocking=True)
            self.y.copy_(y, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        return self

    def __exit__(self, *exc):
        self.used.record()
        self.pending = None
        return False


class GraphTrainer:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.x = torch.zeros(BATCH, WIDTH, device=device)
        self.y = torch.zeros(BATCH, 8, device=device)
        saved = {k: v.clone() for k, v in net.state_dict().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step()
        net.load_state_dict(saved)

    def step(self):
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss

    def fit(self, data):
        losses = torch.zeros(STEPS, device=device)
        fetcher = Fetcher(self.x, self.y)
        for i, (x, y) in enumerate(data):
            with fetcher.batch(x, y):
                self.graph.replay()
                losses[i].copy_(self.loss.detach())
        return losses.cpu()


def fit_eager(net, opt, data):
    losses = torch.zeros(STEPS, device=device)
    for i, (x, y) in enumerate(data):
        loss = F.mse_loss(net(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses[i].copy_(loss.detach())
    return losses.cpu()


def main():
    data = Dataset(STEPS, seed=61)
    want = fit_eager(*build(seed=62), data)
    got = GraphTrainer(*build(seed=62)).fit(data)
    gap = float((got - want).abs().nan_to_num(1e9).max())
    print("RESULT", [round(float(v), 3) for v in got[-4:]])
    print("CHECK ok" if gap < 2e-2 else f"CHECK wrong: losses differ by {gap:.4g}")


if __name__ == "__main__":
    main()
