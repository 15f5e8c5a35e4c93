"""A formula given as text is compiled again before each step; text and constants stay the same."""

import torch

import graphsafe


class Formula:
    def __init__(self, text, **parameters):
        self.text, self.parameters = text, parameters
        self.compile()

    def compile(self):
        space = {"sin": torch.sin, "exp": torch.exp, **self.parameters}
        exec(compile(f"def value(x, y):\n    return {self.text}\n", "<formula>", "exec"), space)
        self.value = space["value"]


def build(device):
    gain = torch.ones((), device=device)
    formula = Formula("gain * sin(x) + exp(-y * y) * bias", gain=gain, bias=0.5)

    def fitness(points):
        x, y = points.unbind(-1)
        return formula.value(x, y)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(64, 2))
        gain.fill_(1 + 0.1 * (k % 4))
        formula.compile()

    return graphsafe.Step(fitness, (torch.randn(64, 2, device=device),), refresh=refresh)
