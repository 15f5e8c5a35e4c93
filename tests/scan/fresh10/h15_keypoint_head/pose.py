"""Pose head: heatmaps to joint coordinates, with mirrored averaging."""
import torch
import torch.nn as nn

MIRROR = [0, 2, 1, 4, 3, 6, 5]
SIGMAS = (0.026, 0.025, 0.025, 0.079, 0.079, 0.072, 0.072)


class PoseHead(nn.Module):
    def __init__(self, channels=8, joints=7, size=16):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, joints, 1)
        )
        axis = torch.linspace(0.0, 1.0, size)
        self.register_buffer("axis", axis)

    def soft_argmax(self, heat):
        flat = heat.flatten(2).softmax(-1).view_as(heat)
        x = (flat.sum(dim=2) * self.axis).sum(-1)
        y = (flat.sum(dim=3) * self.axis).sum(-1)
        return torch.stack([x, y], dim=-1), flat.amax(dim=(2, 3))

    def mirrored(self, feats):
        heat = self.trunk(feats.flip(-1)).flip(-1)
        return heat[:, MIRROR]

    def uncertainty(self, peak):
        sigmas = torch.tensor(SIGMAS, device=peak.device)
        return sigmas.square() / (peak + 1e-6)

    def forward(self, feats):
        heat = 0.5 * (self.trunk(feats) + self.mirrored(feats))
        joints, peak = self.soft_argmax(heat)
        return joints, self.uncertainty(peak)


def build(device):
    torch.manual_seed(3)
    head = PoseHead().to(device).eval().requires_grad_(False)
    return head, (torch.randn(2, 8, 16, 16, device=device),)
