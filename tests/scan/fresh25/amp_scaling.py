"""Half-precision training of a super-resolution net with dynamic loss scaling written out."""
import torch
from torch import nn


class Upscaler(nn.Module):
    def __init__(self, channels: int = 16):
        super().__init__()
        self.inp = nn.Conv2d(1, channels, 3, padding=1)
        self.mid = nn.Conv2d(channels, channels, 3, padding=1)
        self.out = nn.Conv2d(channels, 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, small: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.inp(small))
        h = h + torch.relu(self.mid(h))
        return self.shuffle(self.out(h))


class Scaler:
    """Grows the scale after a run of finite steps and halves it after an overflow."""

    def __init__(self, start: float, patience: int):
        self.value = start
        self.patience = patience
        self.streak = 0

    def record(self, overflow: bool) -> None:
        if overflow:
            self.value *= 0.5
            self.streak = 0
            return
        self.streak += 1
        if self.streak == self.patience:
            self.value *= 2.0
            self.streak = 0


class Textures:
    def __init__(self, size: int, device: torch.device):
        axis = torch.linspace(0, 6.28, size, device=device)
        self.y, self.x = torch.meshgrid(axis, axis, indexing="ij")

    def draw(self, count: int) -> torch.Tensor:
        k = 1 + 4 * torch.rand(count, 2, 1, 1, device=self.x.device)
        return torch.sin(k[:, :1] * self.x + k[:, 1:] * self.y)


class Trainer:
    def __init__(self, net: Upscaler, batch: int, size: int, device: torch.device):
        self.net = net
        self.params = list(net.parameters())
        self.optimizer = torch.optim.SGD(self.params, lr=0.05, momentum=0.9)
        self.scaler = Scaler(1024.0, patience=5)
        self.large = torch.zeros(batch, 1, size, size, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.stream = torch.cuda.Stream(device)
        self.applied = 0
        self.loss = None

    def scaled_backward(self) -> torch.Tensor:
        small = nn.functional.avg_pool2d(self.large, 2)
        loss = (self.net(small).float() - self.large).square().mean()
        (loss * self.scaler.value).backward()
        return loss.detach()

    def prepare(self) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                for _ in range(3):
                    self.optimizer.zero_grad(set_to_none=True)
                    self.scaled_backward()
            torch.cuda.current_stream().wait_stream(self.stream)
            self.optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.loss = self.scaled_backward()

    def step(self, large: torch.Tensor) -> None:
        self.large.copy_(large)
        self.graph.replay()
        grads = [p.grad for p in self.params if p.grad is not None]
        for g in grads:
            g.div_(self.scaler.value)
        finite = all(torch.isfinite(g).all().item() for g in grads)
        if finite:
            self.optimizer.step()
            self.applied += 1
        self.scaler.record(not finite)
        self.optimizer.zero_grad()


def main() -> None:
    torch.manual_seed(23)
    device = torch.device("cuda")
    trainer = Trainer(Upscaler().to(device), batch=8, size=32, device=device)
    trainer.prepare()
    textures = Textures(32, device)
    checkpoints = []
    for step in range(60):
        trainer.step(textures.draw(8))
        if step % 20 == 19:
            checkpoints.append(trainer.loss.clone())
    print("loss", [round(v, 5) for v in torch.stack(checkpoints).tolist()], "applied", trainer.applied)


if __name__ == "__main__":
    main()
