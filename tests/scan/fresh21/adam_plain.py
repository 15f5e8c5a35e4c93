import torch


class PlainAdam:
    def __init__(self, w, lr=1e-2):
        self.w, self.lr = w, lr
        self.m = torch.zeros_like(w)
        self.v = torch.zeros_like(w)
        self.t = 0

    def step(self, g):
        self.t += 1
        self.m.lerp_(g, 0.1)
        self.v.lerp_(g * g, 0.001)
        mhat = self.m / (1 - 0.9 ** self.t)
        vhat = self.v / (1 - 0.999 ** self.t)
        self.w.sub_(self.lr * mhat / (vhat.sqrt() + 1e-8))


def build(device):
    torch.manual_seed(5)
    w = torch.randn(8, device=device)
    opt = PlainAdam(w)

    def train(x, y):
        err = x @ w - y
        opt.step(2 * x.T @ err / x.shape[0])
        return err.square().mean()

    return train, (torch.randn(16, 8, device=device), torch.randn(16, device=device))
