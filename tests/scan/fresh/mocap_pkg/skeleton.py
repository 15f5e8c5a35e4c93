"""Bones and forward kinematics."""
import torch


class Skeleton:
    PARENTS = (-1, 0, 1, 2, 1, 4)

    def __init__(self, device):
        self.length = torch.rand(len(self.PARENTS), device=device) + 0.5

    def pose(self, angles):
        at, turn = [], []
        for i, parent in enumerate(self.PARENTS):
            a = angles[:, i] if parent < 0 else turn[parent] + angles[:, i]
            tip = self.length[i] * torch.stack([a.cos(), a.sin()], -1)
            at.append(tip if parent < 0 else at[parent] + tip)
            turn.append(a)
        return torch.stack(at, 1)
