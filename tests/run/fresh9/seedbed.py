"""Transfer learning with the whole step in one graph: the head is trained first, then the backbone is thawed."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, WIDTH, CLASSES, HEAD_STEPS, ALL_STEPS = 32, 40, 6, 25, 45


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))


class Data:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.centres = torch.randn(CLASSES, WIDTH, device=device)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(CLASSES, (BATCH,), device=self.device)
        return self.centres[labels] + 1.5 * torch.randn(BATCH, WIDTH, device=self.device), labels


class Trainer:
    def __init__(self, device: torch.device) -> None:
        self.net = Student().to(device)
        self.net.backbone.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=3e-3, capturable=True)
        self.x = torch.randn(BATCH, WIDTH, device=device)
        self.y = torch.zeros(BATCH, dtype=torch.long, device=device)
        self.loss = torch.zeros((), device=device)
        self.graph = self.record()

    def compute(self) -> None:
        loss = F.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def record(self) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self.compute()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute()
        return graph

    def thaw(self) -> None:
        """From now on the backbone learns too."""
        self.net.backbone.requires_grad_(True)
        self.graph = self.record()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss.clone()


def main() -> None:
    torch.manual_seed(8)
    device = torch.device("cuda")
    data, trainer = Data(device), Trainer(device)
    losses = [trainer.step(*data.batch()) for _ in range(HEAD_STEPS)]
    trainer.thaw()
    losses += [trainer.step(*data.batch()) for _ in range(ALL_STEPS)]
    curve = torch.stack(losses).tolist()
    print("head only", f"{curve[HEAD_STEPS - 1]:.4f}", "all", f"{curve[-1]:.4f}")
    with torch.no_grad():
        x, y = data.batch()
        print("accuracy", f"{(trainer.net(x).argmax(-1) == y).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
