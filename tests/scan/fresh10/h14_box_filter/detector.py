import torch
import torch.nn as nn


def box_iou(boxes):
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    lt = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    rb = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    inter = (rb - lt).clamp_min(0).prod(dim=-1)
    return inter / (area[:, None] + area[None, :] - inter + 1e-9)


class Head(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.box = nn.Linear(dim, 4)
        self.score = nn.Linear(dim, 1)

    def forward(self, feats):
        centre, size = self.box(feats).chunk(2, dim=-1)
        half = size.sigmoid() * 0.5
        boxes = torch.cat([centre - half, centre + half], dim=-1)
        return boxes, self.score(feats).squeeze(-1).sigmoid()


class Detector(nn.Module):
    """Scores anchors, keeps the confident ones, drops overlaps."""

    def __init__(self, dim=16, threshold=0.4, overlap=0.5):
        super().__init__()
        self.head = Head(dim)
        self.threshold = threshold
        self.overlap = overlap

    def forward(self, feats):
        boxes, scores = self.head(feats)
        confident = int((scores > self.threshold).sum())
        scores, order = scores.sort(descending=True)
        boxes = boxes[order][:confident]
        scores = scores[:confident]
        clash = torch.triu(box_iou(boxes), diagonal=1) > self.overlap
        keep = ~clash.any(dim=0)
        return boxes[keep], scores * keep


def build(device):
    torch.manual_seed(1)
    detector = Detector().to(device).eval().requires_grad_(False)
    return detector, (torch.randn(128, 16, device=device),)
