"""Detection head with a fixed number of candidates and Matrix NMS (SOLOv2): decay instead of removal."""
import torch
import torch.nn as nn

import graphsafe


class FixedHead(nn.Module):
    def __init__(self, c=8, classes=4, topn=16, grid=8, stride=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(2, c), nn.ReLU())
        self.cls, self.reg = nn.Conv2d(c, classes, 1), nn.Conv2d(c, 4, 1)
        self.topn, self.classes = topn, classes
        y, x = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
        self.register_buffer("centres", (torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride)

    def forward(self, feat):
        f = self.stem(feat)
        scores = self.cls(f).flatten(2).sigmoid()
        ltrb = self.reg(f).flatten(2).transpose(1, 2).exp() * 4
        boxes = torch.cat([self.centres - ltrb[..., :2], self.centres + ltrb[..., 2:]], -1)
        top, idx = scores.flatten(1).topk(self.topn)
        label = idx.div(scores.shape[2], rounding_mode="floor")
        where = idx.remainder(scores.shape[2])
        boxes = boxes.gather(1, where[..., None].expand(-1, -1, 4))
        same = (label[:, :, None] == label[:, None]).float()
        iou = (self.iou(boxes) * same).triu(1)
        compensate = iou.max(1).values[:, :, None]
        decay = ((1 - iou) / (1 - compensate).clamp(min=1e-6)).min(1).values.clamp(0, 1)
        final, order = (top * decay).sort(descending=True, stable=True)
        return boxes.gather(1, order[..., None].expand(-1, -1, 4)), final, label.gather(1, order)

    @staticmethod
    def iou(b):
        lt = torch.maximum(b[:, :, None, :2], b[:, None, :, :2])
        rb = torch.minimum(b[:, :, None, 2:], b[:, None, :, 2:])
        inter = (rb - lt).clamp(min=0).prod(-1)
        area = (b[..., 2:] - b[..., :2]).prod(-1)
        return inter / (area[:, :, None] + area[:, None] - inter + 1e-9)


def build(device, batch=2):
    head = FixedHead().to(device).eval().requires_grad_(False)
    feat = torch.randn(batch, 8, 8, 8, device=device)
    return graphsafe.Step(head, (feat,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 8, 8, 8)))
