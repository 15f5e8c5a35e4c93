"""What happens to boxes after the network."""

import torch
from torch import nn


def area(boxes):
    return (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(-1)


def overlaps(a, b):
    low, high = torch.maximum(a[:, None, :2], b[:, :2]), torch.minimum(a[:, None, 2:], b[:, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    return shared / (area(a)[:, None] + area(b) - shared).clamp(min=1e-6)


class GreedyNms(nn.Module):
    def __init__(self, threshold=0.3, most=3):
        super().__init__()
        self.threshold, self.most = threshold, most

    def forward(self, boxes, scores):
        order, kept = scores.argsort(descending=True), []
        while order.numel() and len(kept) < self.most:
            best, order = order[0], order[1:]
            kept.append(boxes.index_select(0, best[None])[0])
            iou = overlaps(kept[-1][None], boxes[order])[0]
            order = order[iou <= self.threshold]  # guilty: greedy_nms GS202
        return torch.stack(kept).sum(0)


# quiet: matrix_nms
class MatrixNms(nn.Module):
    def forward(self, boxes, scores):
        scores, order = scores.sort(descending=True)
        boxes = boxes[order]
        decay = 1 - overlaps(boxes, boxes).triu(1).amax(0)
        best = (scores * decay).topk(2)
        return best.values, boxes[best.indices]


class Confident(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.keep = lambda scores: scores.ge(threshold)

    def forward(self, scores, boxes):
        return torch.masked_select(scores, self.keep(scores)).sum() + boxes.sum()  # guilty: confident_scores GS201


class LevelPooler(nn.Module):
    def __init__(self, dim, levels=2):
        super().__init__()
        self.poolers = nn.ModuleList(nn.Linear(4, dim) for _ in range(levels))

    def level_of(self, boxes):
        return (area(boxes) > 0.3).long()

    def rows(self, level):
        for number in range(len(self.poolers)):
            yield number, torch.nonzero(level == number)[:, 0]  # guilty: level_rows GS201

    def forward(self, boxes):
        out = boxes.new_zeros(boxes.shape[0], self.poolers[0].out_features)
        for number, rows in self.rows(self.level_of(boxes)):
            out = out.index_add(0, rows, self.poolers[number](boxes[rows]))
        return out


class Anchors(nn.Module):
    """Scaled to the images, which all have one size."""

    def __init__(self, sizes=(1.0, 2.0)):
        super().__init__()
        self.register_buffer("sizes", torch.tensor(sizes))
        self._per_level = {}

    def grid(self, feature, image_size):
        key = tuple(feature.shape[-2:])
        if key in self._per_level:
            return self._per_level[key]
        stride = image_size / feature.shape[-1]
        self._per_level[key] = stride[:, None] * self.sizes  # guilty: anchor_cache GS701
        return self._per_level[key]

    def forward(self, feature, image_size):
        return feature.sum() + self.grid(feature, image_size)


class Matcher(nn.Module):
    """Assigns each target the cheapest prediction, one after the other."""

    @staticmethod
    def assign(cost):
        rows = []
        for column in cost.T:
            rows.append(min((r for r in range(len(column)) if r not in rows), key=column.__getitem__))
        return rows

    def forward(self, predicted, wanted):
        cost = torch.cdist(predicted, wanted).detach()
        rows = self.assign(cost.cpu().numpy())  # guilty: host_matcher GS103
        rows = torch.as_tensor(rows, device=predicted.device)  # guilty: host_matcher GS301
        return predicted[rows].sub(wanted).abs().mean()


class Rectify(nn.Module):
    def __init__(self):
        super().__init__()
        self.homography = nn.Parameter(torch.eye(3) + 0.1)

    @property
    def inverse(self):
        return torch.linalg.inv(self.homography)  # guilty: homography GS106

    def forward(self, points):
        return points @ self.inverse.T


# quiet: homography_unchecked
class RectifyUnchecked(Rectify):
    @property
    def inverse(self):
        return torch.linalg.inv_ex(self.homography).inverse


class Keypoints(nn.Module):
    def forward(self, heat):
        peak = heat.flatten(1).amax(1)
        return heat.softmax(-1) if peak.mean() > 0.5 else torch.zeros_like(heat)  # guilty: faint_keypoints GS102
