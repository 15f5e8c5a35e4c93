"""Learning rates that a schedule changes while a captured step replays."""

import torch
from torch import nn

DEVICE = "cuda"


def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


class Trainer:
    def __init__(self, lr, **options):
        self.model = nn.Linear(8, 8).to(DEVICE)
        self.x = torch.randn(4, 8, device=DEVICE)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, capturable=True, **options)

    def backward(self):
        self.optimizer.zero_grad(set_to_none=False)
        self.model(self.x).square().mean().backward()

    def step(self):
        self.backward()
        self.optimizer.step()  # expect: GS713


def decayed():
    """A scheduler writes a new float, which the graph never reads."""
    trainer = Trainer(1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.9)
    graph = capture_of(trainer)
    for _ in range(3):
        graph.replay()
        schedule.step()


def capture_of(trainer):
    optimizer = trainer.optimizer
    trainer.backward()
    optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        trainer.step()
    return graph


def tensor_rate():
    """The learning rate is a tensor, filled in place."""
    rate = torch.tensor(1e-3, device=DEVICE)
    trainer = Trainer(rate)
    graph = captured(trainer.step)
    for number in range(3):
        rate.fill_(1e-3 / (number + 1))
        graph.replay()
    return trainer


def eager_step():
    """Only the backward pass is captured, and the optimizer runs eagerly with each new rate."""
    trainer = Trainer(1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.9)
    graph = captured(trainer.backward)
    for _ in range(3):
        graph.replay()
        trainer.optimizer.step()
        schedule.step()


def captured_again():
    """Each new rate gets a graph of its own."""
    trainer = Trainer(1e-3)
    for rate in (1e-3, 5e-4):
        trainer.optimizer.param_groups[0]["lr"] = rate
        graph = captured(trainer.step)
        for _ in range(6):
            graph.replay()


def same_rate():
    """The schedule is constant."""
    trainer = Trainer(1e-3, weight_decay=0.01)
    graph = captured(trainer.step)
    for _ in range(3):
        for group in trainer.optimizer.param_groups:
            group["lr"] = 1e-3
        graph.replay()


if __name__ == "__main__":
    torch.manual_seed(0)
    decayed()
    tensor_rate()
    eager_step()
    captured_again()
    same_rate()
    print("done")
