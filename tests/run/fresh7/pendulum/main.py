"""Learns the energy of a pendulum from its motion; the network is one graphed callable."""
import torch
from torch import nn

BATCH, EPOCHS, BATCHES = 64, 5, 30


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.outer = nn.Linear(48, 1)

    def forward(self, state):
        return self.outer(self.inner(state))


def truth(state):
    return 0.5 * state[:, 1:].square() + (1 - torch.cos(state[:, :1]))


class Fit:
    def __init__(self, device):
        self.train_set = (torch.randn(BATCHES, BATCH, 2) * 1.5).to(device)
        self.check_set = (torch.randn(256, 2) * 1.5).to(device)
        net = Energy().to(device)
        net.train()
        sample = torch.zeros(BATCH, 2, device=device)
        self.net = torch.cuda.make_graphed_callables(net, (sample,))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.history = torch.zeros(EPOCHS, device=device)

    def epoch(self):
        for i in range(BATCHES):
            state = self.train_set[i]
            self.opt.zero_grad(set_to_none=True)
            loss = (self.net(state) - truth(state)).square().mean()
            loss.backward()
            self.opt.step()

    def validate(self, n):
        self.net.eval()
        with torch.no_grad():
            gap = self.net(self.check_set) - truth(self.check_set)
            self.history[n].copy_(gap.square().mean())


def main():
    torch.manual_seed(10)
    device = torch.device("cuda")
    fit = Fit(device)
    for n in range(EPOCHS):
        fit.epoch()
        fit.validate(n)
    print("error", " ".join(f"{v:.4f}" for v in fit.history.tolist()))


if __name__ == "__main__":
    main()
