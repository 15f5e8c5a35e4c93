"""Rollout engine that sleeps while a colocated trainer uses the card, then wakes up."""
import torch
from torch import nn

DEV = torch.device("cuda")
DIM, ROWS = 192, 8


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(DIM, DIM), nn.SiLU(), nn.Linear(DIM, DIM))
        self.head = nn.Linear(DIM, 10)

    def forward(self, x):
        return self.head(self.body(x)).softmax(-1)


class Engine:
    def __init__(self):
        self.model = Policy().to(DEV).requires_grad_(False)
        self.obs = torch.zeros(ROWS, DIM, device=DEV)
        self.host = {}
        self._warm()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.probs = self.model(self.obs)

    def _warm(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.obs)
        torch.cuda.current_stream().wait_stream(side)

    def sleep(self):
        for name, param in self.model.named_parameters():
            self.host[name] = param.data.cpu()
            param.data.zero_()

    def wake_up(self):
        for name, param in self.model.named_parameters():
            param.data.copy_(self.host[name])
        self.host.clear()

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.probs.argmax(-1)


class Trainer:
    def __init__(self, shapes):
        self.shapes = shapes
        self.moments = []

    def step(self):
        if not self.moments:
            self.moments = [torch.zeros(s, device=DEV) for s in self.shapes]
        for m in self.moments:
            m.mul_(0.9).add_(0.1)


def main():
    torch.manual_seed(0)
    engine = Engine()
    trainer = Trainer([p.shape for p in engine.model.parameters()])
    actions = torch.zeros(10, device=DEV)
    one = torch.ones(ROWS, device=DEV)
    for phase in range(2):
        for _ in range(12):
            obs = torch.randn(ROWS, DIM, device=DEV)
            actions.scatter_add_(0, engine.act(obs), one)
        if phase == 0:
            engine.sleep()
            for _ in range(4):
                trainer.step()
            engine.wake_up()
    print(float((actions * torch.arange(10, device=DEV)).sum()))


main()
