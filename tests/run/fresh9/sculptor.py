"""Denoising autoencoder: one graph holds the whole step of training, with a momentum optimizer."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, POINTS, CODE, STEPS = 48, 32, 6, 120


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(3 * POINTS, 96), nn.SiLU(), nn.Linear(96, CODE))
        self.decode = nn.Sequential(nn.Linear(CODE, 96), nn.SiLU(), nn.Linear(96, 3 * POINTS))

    def forward(self, shape: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(shape.flatten(1))).view_as(shape)


class Shapes:
    """Ellipsoids with random axes, sampled at fixed directions."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.directions = F.normalize(torch.randn(POINTS, 3, device=device), dim=-1)

    def batch(self) -> torch.Tensor:
        axes = 0.5 + torch.rand(BATCH, 1, 3, device=self.device)
        return axes * self.directions


class Trainer:
    def __init__(self, device: torch.device) -> None:
        self.net = Autoencoder().to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.shape = torch.zeros(BATCH, POINTS, 3, device=device)
        self.loss = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.record()

    def forward_backward(self) -> None:
        noisy = self.shape + 0.02 * torch.randn_like(self.shape)
        loss = F.mse_loss(self.net(noisy), self.shape)
        loss.backward()
        self.loss.copy_(loss.detach())

    def record(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                # The optimizer is left out: warming up must not move the weights.
                self.forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.forward_backward()
            self.optimizer.step()

    def step(self, shape: torch.Tensor) -> torch.Tensor:
        self.shape.copy_(shape)
        self.graph.replay()
        return self.loss.clone()


def main() -> None:
    torch.manual_seed(66)
    device = torch.device("cuda")
    shapes, trainer = Shapes(device), Trainer(device)
    losses = torch.stack([trainer.step(shapes.batch()) for _ in range(STEPS)])
    print("loss", [round(value, 5) for value in losses[::20].tolist()], f"last {losses[-1].item():.5f}")
    with torch.no_grad():
        code = trainer.net.encode(shapes.batch().flatten(1))
    print("spread of codes", [round(value, 3) for value in code.std(0).tolist()])


if __name__ == "__main__":
    main()
