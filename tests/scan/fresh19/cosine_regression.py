import math

import torch
from torch import nn
import torch.nn.functional as F


class Regressor(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.layers(x)


class GraphTrainer:
    def __init__(self, net, batch, features, device):
        self.net, self.device = net, device
        self.rate = torch.tensor(1e-2, device=device)
        self.margin = torch.zeros((), device=device)
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=self.rate, capturable=True, foreach=False)
        self.inputs = torch.zeros(batch, features, device=device)
        self.targets = torch.zeros(batch, 1, device=device)
        self.total = torch.zeros((), device=device)
        self.train_graph = torch.cuda.CUDAGraph()
        self.eval_graph = torch.cuda.CUDAGraph()

    def _train(self):
        error = (self.net(self.inputs) - self.targets).abs() - self.margin
        loss = F.relu(error).mean()
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()
        self.total.add_(loss.detach())

    @torch.no_grad()
    def _eval(self):
        return F.l1_loss(self.net(self.inputs), self.targets)

    def build(self):
        saved = {k: v.clone() for k, v in self.net.state_dict().items()}
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._train()
            self._eval()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.train_graph, stream=stream):
            self._train()
        with torch.cuda.graph(self.eval_graph, stream=stream):
            self.score = self._eval()
        with torch.no_grad():
            for k, v in self.net.state_dict().items():
                v.copy_(saved[k])
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()
        self.total.zero_()

    def fit(self, x, y):
        self.inputs.copy_(x)
        self.targets.copy_(y)
        self.train_graph.replay()

    def score_on(self, x, y):
        self.inputs.copy_(x)
        self.targets.copy_(y)
        self.eval_graph.replay()
        return self.score.clone()

    def anneal(self, epoch, epochs):
        self.rate.fill_(1e-2 * 0.5 * (1 + math.cos(math.pi * epoch / epochs)))
        self.margin.fill_(0.02 * epoch / epochs)


def main():
    device = torch.device("cuda")
    torch.manual_seed(0)
    x = torch.randn(64, 6, device=device)
    y = (x @ torch.randn(6, 1, device=device)).sin()
    trainer = GraphTrainer(Regressor(6, 16).to(device), 16, 6, device)
    trainer.build()
    curve, means = [], []
    for epoch in range(5):
        trainer.anneal(epoch, 5)
        for i in range(0, 48, 16):
            trainer.fit(x[i : i + 16], y[i : i + 16])
        means.append(trainer.total / 3)
        trainer.total.zero_()
        curve.append(trainer.score_on(x[48:], y[48:]))
    print(torch.stack(means).tolist(), torch.stack(curve).tolist())


if __name__ == "__main__":
    main()
