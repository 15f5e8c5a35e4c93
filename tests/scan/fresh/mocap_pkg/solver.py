"""Inverse kinematics by damped gradient steps."""
import torch

from .contacts import Contacts
from .skeleton import Skeleton


class Damping:
    """Levenberg-style damping that follows the loss."""

    def __init__(self, value=0.1):
        self.value, self.best = value, float("inf")

    def adapt(self, loss):
        if loss < self.best:
            self.best, self.value = loss, self.value * 0.7
        else:
            self.value *= 2.0


class Solver:
    def __init__(self, frames, device):
        self.body, self.contacts, self.damping = Skeleton(device), Contacts(), Damping()
        self.angles = torch.zeros(frames, len(Skeleton.PARENTS), device=device)

    def iterate(self, target):
        angles = self.angles.detach().requires_grad_()
        joints = self.body.pose(angles)
        loss = (joints - target).square().sum() + self.contacts.penalty(joints)
        (g,) = torch.autograd.grad(loss, angles)
        self.angles.sub_(g / (g.square().mean() + self.damping.value) * 0.01)
        self.damping.adapt(loss.detach())
        return joints.detach()


def build(device):
    return Solver(4, device).iterate, (torch.randn(4, 6, 2, device=device),)
