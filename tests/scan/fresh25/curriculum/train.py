"""Runs the phases of the curriculum and reports the error of the averaged weights."""
import torch
from torch import nn

from .data import PHASES, Oscillations, Phase
from .graphs import Evaluation, MicroStep
from .model import GatedRegressor, WeightAverage


class Run:
    def __init__(self, device: torch.device, rows: int = 16, length: int = 64):
        self.rows = rows
        self.data = Oscillations(length, device)
        self.model = GatedRegressor().to(device)
        self.average = WeightAverage(self.model, decay=0.9)
        self.micro = MicroStep(self.model, rows, length, PHASES[0].accumulate, device)
        self.evaluation = Evaluation(self.model, *self.data.draw(128, 0.1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.norms: list[torch.Tensor] = []
        self.errors: list[torch.Tensor] = []

    def clear_gradients(self) -> None:
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def update(self, phase: Phase) -> None:
        self.clear_gradients()
        for _ in range(phase.accumulate):
            self.micro(*self.data.draw(self.rows, phase.noise))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.norms.append(norm.cpu())
        self.optimizer.step()
        self.average.update()

    def phase(self, phase: Phase) -> None:
        self.micro.accumulate = phase.accumulate
        for _ in range(phase.updates):
            self.update(phase)
        self.average.swap()
        self.errors.append(self.evaluation())
        self.average.swap()

    def report(self) -> str:
        errors = ", ".join(f"{e:.6f}" for e in torch.stack(self.errors).tolist())
        return f"errors of the averaged weights {errors}; mean gradient norm {torch.stack(self.norms).mean().item():.6f}"


def main() -> None:
    torch.manual_seed(12)
    run = Run(torch.device("cuda"))
    for phase in PHASES:
        run.phase(phase)
    print(run.report())


if __name__ == "__main__":
    main()
