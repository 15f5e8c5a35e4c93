"""Fine-tuning a small classifier: forward and backward are recorded, the optimizer runs eagerly, saliency maps now and then."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIDE, CLASSES = 32, 12, 5


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())
        self.head = nn.Linear(8 * 5 * 5, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).flatten(1))


class Data:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.centres = torch.randn(CLASSES, 1, SIDE, SIDE, device=device)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(CLASSES, (BATCH,), device=self.device)
        noise = torch.randn(BATCH, 1, SIDE, SIDE, device=self.device)
        return self.centres[labels] + noise, labels


class Trainer:
    def __init__(self, device: torch.device) -> None:
        self.net = Classifier().to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9)
        self.images = torch.randn(BATCH, 1, SIDE, SIDE, device=device)
        self.labels = torch.zeros(BATCH, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.net.zero_grad(set_to_none=True)
                F.cross_entropy(self.net(self.images), self.labels).backward()
        torch.cuda.current_stream().wait_stream(side)
        self.net.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = F.cross_entropy(self.net(self.images), self.labels)
            self.loss.backward()

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.images.copy_(images)
        self.labels.copy_(labels)
        self.graph.replay()
        self.optimizer.step()
        return self.loss.detach().clone()

    def saliency(self, images: torch.Tensor) -> torch.Tensor:
        """How strongly each pixel moves the winning class."""
        images = images.clone().requires_grad_()
        self.net(images).amax(-1).sum().backward()
        self.net.zero_grad()
        return images.grad.abs().mean((0, 1))


def main() -> None:
    torch.manual_seed(17)
    device = torch.device("cuda")
    data, trainer = Data(device), Trainer(device)
    losses, maps = [], []
    for step in range(60):
        images, labels = data.batch()
        losses.append(trainer.step(images, labels))
        if step % 20 == 19:
            maps.append(trainer.saliency(images))
    curve = torch.stack(losses).tolist()
    print("loss", [round(value, 3) for value in curve[::10]], f"last {curve[-1]:.3f}")
    print("saliency", [round(value.sum().item(), 3) for value in maps])


if __name__ == "__main__":
    main()
