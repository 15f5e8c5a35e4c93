from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from .callbacks import CallbackList, GradientMean, LossReport


class Trainer:
    def __init__(self, model: nn.Module, sample: tuple[torch.Tensor, torch.Tensor], *callbacks, lr: float = 1e-3):
        self.model = model
        self.x, self.y = (t.clone() for t in sample)
        self.callbacks = CallbackList(callbacks)
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.world = dist.get_world_size()
        self.step = 0
        self.graph = torch.cuda.CUDAGraph()

    @property
    def is_main(self) -> bool:
        return dist.get_rank() == 0

    def _forward_backward(self) -> torch.Tensor:
        loss = F.cross_entropy(self.model(self.x).float(), self.y)
        loss.backward()
        return loss

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.autocast(self.x.device.type, dtype=torch.bfloat16):
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.model.zero_grad(set_to_none=True)
                    self._forward_backward()
            torch.cuda.current_stream().wait_stream(side)
            self.model.zero_grad(set_to_none=True)
            with torch.cuda.graph(self.graph):
                self.loss = self._forward_backward()

    def train_step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        self.callbacks.on_gradients(self)
        self.opt.step()
        self.step += 1
        self.callbacks.on_step_end(self)


def fit(rank: int, world: int, device, steps: int = 40, rows: int = 32):
    torch.cuda.set_device(device)
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    x = torch.randn(rows, 16, device=device)
    report = LossReport()
    trainer = Trainer(model, (x, x[:, :4].argmax(-1)), GradientMean(world), report)
    trainer.capture()
    for _ in range(steps):
        x = torch.randn(rows, 16, device=device)
        trainer.train_step(x, x[:, :4].argmax(-1))
    return report.points
