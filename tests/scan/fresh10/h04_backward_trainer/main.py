"""Trainer that graphs forward and backward and leaves the optimiser eager,
so that learning-rate schedules keep working."""
import torch
import torch.nn as nn


def make_model(width):
    return nn.Sequential(
        nn.Linear(width, 64), nn.GELU(),
        nn.Linear(64, 64), nn.GELU(),
        nn.Linear(64, 1),
    )


class GraphTrainer:
    def __init__(self, device, width=16, batch=32, lr=0.05):
        torch.manual_seed(0)
        self.device = device
        self.model = make_model(width).to(device)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=100)
        self.x = torch.zeros(batch, width, device=device)
        self.y = torch.zeros(batch, 1, device=device)
        self.loss = None
        self.graph = torch.cuda.CUDAGraph()

    def _forward_backward(self):
        loss = self.criterion(self.model(self.x), self.y)
        loss.backward()
        return loss

    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self._forward_backward()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self._forward_backward()

    def fit(self, inputs, targets):
        history = []
        for x, y in zip(inputs, targets):
            self.optimizer.zero_grad()
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            self.optimizer.step()
            self.scheduler.step()
            history.append(self.loss.item())
        return history


def main():
    device = torch.device("cuda")
    trainer = GraphTrainer(device)
    trainer.capture()
    inputs = torch.randn(20, 32, 16, device=device)
    targets = inputs.sum(-1, keepdim=True)
    history = trainer.fit(inputs, targets)
    print(f"first {history[0]:.4f} last {history[-1]:.4f}")


if __name__ == "__main__":
    main()
