"""A factory of closures returns the step and a function that installs another table in the cell that both share."""
import torch

import graphsafe


def lens(table):
    uses = 0

    def apply(x):
        nonlocal uses
        uses += 1
        return torch.nn.functional.grid_sample(x, table, align_corners=False, padding_mode="border")

    def install(strength):
        nonlocal table
        grid = table.detach()
        radius = grid.square().sum(-1, keepdim=True)
        table = grid * (1 + strength * radius)

    return apply, install


class Rig:
    """Reads the temperature of the lens; from a certain warmth on it is calibrated anew, with hysteresis."""

    def __init__(self, install):
        self.install, self.last = install, 20.0

    def poll(self, k):
        warmth = 20.0 + 0.05 * k
        if warmth - self.last > 5.5:
            self.install(0.1)
            self.last = warmth


def build(device):
    line = torch.linspace(-0.9, 0.9, 10, device=device)
    table = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)[None]
    apply, install = lens(table)
    rig = Rig(install)

    def refresh(args, kwargs, k):
        rig.poll(k)
        args[0].copy_(torch.rand(1, 3, 12, 12))

    return graphsafe.Step(apply, (torch.rand(1, 3, 12, 12, device=device),), refresh=refresh)
