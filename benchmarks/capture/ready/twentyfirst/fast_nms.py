"""YOLACT's Fast NMS with a fixed number of candidates; absent detections get score zero."""
import torch
import torch.nn as nn

import graphsafe


def pairwise_iou(boxes):
    area = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    lt = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    rb = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    wh = (rb - lt).clamp_min(0)
    inter = wh.prod(-1)
    return inter / (area[:, :, None] + area[:, None, :] - inter).clamp_min(1e-6)


class Detector(nn.Module):
    def __init__(self, classes=4, top=12, iou=0.5, score=0.2):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU())
        self.cls, self.reg = nn.Conv2d(8, classes, 1), nn.Conv2d(8, 4, 1)
        self.top, self.iou, self.score = top, iou, score

    def forward(self, images):
        f = self.body(images)
        b, _, h, w = f.shape
        scores, labels = self.cls(f).flatten(2).transpose(1, 2).sigmoid().max(-1)
        ltrb = self.reg(f).flatten(2).transpose(1, 2).exp()
        gy, gx = torch.meshgrid(
            torch.arange(h, device=f.device), torch.arange(w, device=f.device), indexing="ij"
        )
        center = torch.stack([gx, gy], -1).view(1, -1, 2) + 0.5
        boxes = torch.cat([center - ltrb[..., :2], center + ltrb[..., 2:]], -1)
        scores, index = scores.topk(self.top, dim=1)
        boxes = boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
        labels = labels.gather(1, index)
        iou = pairwise_iou(boxes) * (labels[:, :, None] == labels[:, None, :])
        worst = iou.triu(1).amax(1)
        keep = (worst <= self.iou) & (scores > self.score)
        return boxes * keep.unsqueeze(-1), scores * keep, labels.masked_fill(~keep, -1), keep.sum(1)


def build(device, batch=2):
    torch.manual_seed(7)
    model = Detector().to(device).eval().requires_grad_(False)
    return model, (torch.randn(batch, 3, 16, 16, device=device),)
