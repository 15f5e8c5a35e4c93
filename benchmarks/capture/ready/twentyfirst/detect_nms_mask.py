"""A detection head: decode boxes, drop low scores, keep the best."""
import torch
import torch.nn as nn

import graphsafe


def box_iou(a, b):
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    lt = torch.max(a[:, None, :2], b[None, :, :2])
    rb = torch.min(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    return inter / (area(a)[:, None] + area(b)[None] - inter + 1e-6)


class Head(nn.Module):
    def __init__(self, dim=16, classes=3, score_thresh=0.3, top=20):
        super().__init__()
        self.cls = nn.Linear(dim, classes)
        self.reg = nn.Linear(dim, 4)
        self.score_thresh, self.top = score_thresh, top

    def forward(self, feats, anchors):
        scores, labels = self.cls(feats).sigmoid().max(-1)
        delta = self.reg(feats) * 0.1
        wh = anchors[:, 2:] - anchors[:, :2]
        center = anchors[:, :2] + 0.5 * wh + delta[:, :2] * wh
        wh = wh * delta[:, 2:].exp()
        boxes = torch.cat([center - 0.5 * wh, center + 0.5 * wh], dim=-1)
        keep = scores > self.score_thresh
        boxes, scores, labels = boxes[keep], scores[keep], labels[keep]
        order = scores.argsort(descending=True)[: self.top]
        boxes, scores, labels = boxes[order], scores[order], labels[order]
        iou = box_iou(boxes, boxes).triu(1)
        decay = torch.exp(-iou.amax(0) ** 2 / 0.5)
        return boxes, scores * decay, labels


def build(device, n=40):
    torch.manual_seed(21)
    head = Head().to(device).eval().requires_grad_(False)
    feats = torch.randn(n, 16, device=device)
    xy = torch.rand(n, 2)
    anchors = torch.cat([xy, xy + 0.2], -1).to(device)
    return graphsafe.Step(head, (feats, anchors), refresh=lambda a, kw, k: a[0].copy_(torch.randn(n, 16)))
