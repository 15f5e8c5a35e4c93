"""Forward and backward in a graph, optimiser and schedule eager."""
import torch
import torch.nn as nn


class GraphTrainer:
    def __init__(self, device, width=16, batch=32, lr=0.05):
        torch.manual_seed(0)
        self.device = device
        self.model = nn.Sequential(
            nn.Linear(width, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)
        ).to(device)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=5, gamma=0.5)
        self.x = torch.zeros(batch, width, device=device)
        self.y = torch.zeros(batch, 1, device=device)
        self.loss = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()

    def _forward_backward(self):
        loss = self.criterion(self.model(self.x), self.y)
        loss.backward()
        self.loss.copy_(loss.detach())

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
            self._forward_backward()

    def fit(self, inputs, targets, history):
        for i in range(inputs.shape[0]):
            self.x.copy_(inputs[i])
            self.y.copy_(targets[i])
            self.graph.replay()
            self.optimizer.step()
            self.scheduler.step()
            history[i].copy_(self.loss)
        return history


def main():
    device = torch.device("cuda")
    trainer = GraphTrainer(device)
    trainer.capture()
    inputs = torch.randn(20, 32, 16, device=device)
    targets = inputs.sum(-1, keepdim=True)
    history = trainer.fit(inputs, targets, torch.zeros(20, device=device))
    first, last = history[0].item(), history[-1].item()
    print(f"first {first:.4f} last {last:.4f}")


if __name__ == "__main__":
    main()
