"""Optimizers whose step is captured: without a warm-up step, with one, and with weights that are thawed later."""

import torch

DEVICE = torch.device("cuda")


class Trainer:
    def __init__(self, warm: bool) -> None:
        self.net = torch.nn.Linear(4, 4).to(DEVICE)
        self.head = torch.nn.Linear(4, 2).to(DEVICE).requires_grad_(False)
        weights = [*self.net.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.Adam(weights, lr=torch.tensor(1e-3, device=DEVICE), capturable=True)
        self.x = torch.randn(8, 4, device=DEVICE)
        self.backward()
        if warm:
            self.update()
        self.optimizer.zero_grad()
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        with torch.cuda.graph(self.graph, stream=stream):
            self.backward()
            if warm:
                self.update()
            else:
                self.begin()

    def backward(self) -> None:
        self.head(self.net(self.x)).square().mean().backward()

    def update(self) -> None:
        self.optimizer.step()  # expect: GS713

    def begin(self) -> None:
        self.optimizer.step()  # expect: GS701

    def train(self) -> None:
        for _ in range(3):
            self.x.copy_(torch.randn(8, 4, device=DEVICE))
            self.graph.replay()


cold, warm, thawed = Trainer(warm=False), Trainer(warm=True), Trainer(warm=True)
for trainer in (cold, warm, thawed):
    trainer.train()
thawed.head.requires_grad_(True)
thawed.train()
print("done")
