import torch
import torch.nn as nn

import boxes as box_ops


class Head(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.stem = nn.Conv2d(channels, channels, 3, padding=1)
        self.cls = nn.Conv2d(channels, classes, 1)
        self.reg = nn.Conv2d(channels, 4, 1)

    def forward(self, feature):
        h = torch.relu(self.stem(feature))
        return self.cls(h).flatten(2).squeeze(0).t().sigmoid(), self.reg(h).flatten(2).squeeze(0).t()


class Detector(nn.Module):
    def __init__(self, grid: int = 12, stride: int = 8, classes: int = 3, threshold: float = 0.5):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(), nn.AvgPool2d(4))
        self.head = Head(16, classes)
        self.stride, self.threshold = stride, threshold
        self.extent = (grid * stride, grid * stride)
        axis = (torch.arange(grid) + 0.5) * stride
        ys, xs = torch.meshgrid(axis, axis, indexing="ij")
        self.register_buffer("anchors", torch.stack((xs, ys), -1).reshape(-1, 2))

    def forward(self, image):
        scores, deltas = self.head(self.backbone(image))
        best, label = scores.max(-1)
        boxes = box_ops.clip(box_ops.decode(deltas, self.anchors, self.stride), self.extent)
        keep = box_ops.confident(best, self.threshold)
        return boxes[keep], label[keep], best[keep]


def build(device):
    torch.manual_seed(23)
    model = Detector().to(device).eval().requires_grad_(False)
    return model, (torch.randn(1, 3, 96, 96, device=device),)


if __name__ == "__main__":
    model, args = build(torch.device("cuda"))
    print([t.shape for t in model(*args)])
