import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Regressor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x)


class RestartTrainer:
    """Whole step in one graph; a restart goes back to a saved point
    with a lower rate."""

    def __init__(self, device, dim=12, batch=64, lr=3e-2):
        torch.manual_seed(19)
        self.device = device
        self.model = Regressor(dim).to(device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=torch.tensor(lr, device=device), capturable=True
        )
        self.x = torch.randn(batch, dim, device=device)
        self.y = torch.randn(batch, 1, device=device)
        self.total = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.saved = None

    def _step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.smooth_l1_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.total.add_(loss.detach())

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph):
            self._step()

    def remember(self):
        self.saved = (
            copy.deepcopy(self.model.state_dict()),
            copy.deepcopy(self.optimizer.state_dict()),
        )

    def roll_back(self):
        weights, moments = self.saved
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(moments)

    def lower_rate(self, factor=0.5):
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] * factor

    def epoch(self, xs, ys):
        self.total.zero_()
        for i in range(xs.shape[0]):
            self.x.copy_(xs[i])
            self.y.copy_(ys[i])
            self.graph.replay()
        return self.total / xs.shape[0]


def main():
    device = torch.device("cuda")
    trainer = RestartTrainer(device)
    trainer.capture()
    xs = torch.randn(16, 64, 12, device=device)
    ys = xs.prod(dim=-1, keepdim=True).tanh()
    losses = torch.zeros(8, device=device)
    for epoch in range(8):
        losses[epoch].copy_(trainer.epoch(xs, ys))
        if epoch == 2:
            trainer.remember()
        elif epoch == 5:
            trainer.roll_back()
            trainer.lower_rate()
    print([round(v, 4) for v in losses.tolist()])


if __name__ == "__main__":
    main()
