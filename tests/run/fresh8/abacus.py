"""Training with loss scaling: the scaled forward and backward are recorded, scaler and optimizer step eagerly."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, FEATURES, CLASSES, STEPS = 48, 20, 4, 90


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


class Trainer:
    def __init__(self, device: torch.device) -> None:
        self.net = Net().to(device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=2e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=256.0, growth_interval=15)
        self.x = torch.randn(BATCH, FEATURES, device=device)
        self.y = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.loss = torch.zeros((), device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self.backward()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.backward()

    def backward(self) -> None:
        loss = F.cross_entropy(self.net(self.x), self.y)
        self.scaler.scale(loss).backward()
        self.loss.copy_(loss.detach())

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        return self.loss.clone()


class Stream:
    """Labelled points around moving centres."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.centres = torch.randn(CLASSES, FEATURES, device=device)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(CLASSES, (BATCH,), device=self.device)
        points = self.centres[labels] + torch.randn(BATCH, FEATURES, device=self.device)
        self.centres.mul_(0.999)
        return points, labels


def main() -> None:
    torch.manual_seed(61)
    device = torch.device("cuda")
    stream, trainer = Stream(device), Trainer(device)
    losses = [trainer.step(*stream.draw()) for _ in range(STEPS)]
    with torch.no_grad():
        points, labels = stream.draw()
        right = (trainer.net(points).argmax(-1) == labels).float().mean()
    curve = torch.stack(losses).tolist()
    print(f"loss {curve[0]:.4f} to {curve[-1]:.4f}, right {right.item():.3f}, scale {trainer.scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
