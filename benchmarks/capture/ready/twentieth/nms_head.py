"""Detection head as in torchvision: score threshold by a boolean mask, top-n, then greedy suppression."""
import torch
import torch.nn as nn

import graphsafe


def box_iou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-9)


class Head(nn.Module):
    def __init__(self, c=8, anchors=2, classes=3):
        super().__init__()
        self.cls = nn.Conv2d(c, anchors * classes, 1)
        self.reg = nn.Conv2d(c, anchors * 4, 1)
        self.classes = classes

    def forward(self, feat):
        cls = self.cls(feat).permute(0, 2, 3, 1).reshape(-1, self.classes)
        reg = self.reg(feat).permute(0, 2, 3, 1).reshape(-1, 4)
        scores, labels = cls.sigmoid().max(-1)
        centre = reg[:, :2]
        size = reg[:, 2:].exp()
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1)
        keep = scores > 0.6
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
        order = scores.argsort(descending=True)[:20]
        boxes, scores, labels = boxes[order], scores[order], labels[order]
        iou = box_iou(boxes, boxes).triu(1)
        alive = iou.max(0).values < 0.5
        return boxes[alive], scores[alive], labels[alive]


def build(device):
    head = Head().to(device).eval().requires_grad_(False)
    feat = torch.randn(1, 8, 6, 6, device=device) * 2
    return graphsafe.Step(head, (feat,), refresh=lambda a, k, i: a[0].copy_(torch.randn(1, 8, 6, 6) * 2))
