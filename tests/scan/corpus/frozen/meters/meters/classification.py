import math

import torch

from .base import Metric


class Accuracy(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.right, self.seen = 0, 0

    def update(self, scores, target):
        self.right += (scores.argmax(-1) == target).sum().item()  # guilty: accuracy GS101
        self.seen += target.numel()

    def compute(self):
        return torch.full((), self.right / self.seen, device=self.device)


# quiet: accuracy_tensor
class AccuracyTensor(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.add_state("right", torch.zeros((), dtype=torch.long, device=device))
        self.add_state("seen", torch.zeros((), dtype=torch.long, device=device))

    def update(self, scores, target):
        self.right.add_((scores.argmax(-1) == target).sum())
        self.seen.add_(target.numel())

    def compute(self):
        return self.right / self.seen


class IgnoringAccuracy(AccuracyTensor):
    ignore_index = 0

    def update(self, scores, target):
        seen = target != self.ignore_index
        super().update(scores[seen], target[seen])  # guilty: ignored_index GS202


class RankedScores(Metric):
    """States are lists, as for curves."""

    def __init__(self, device):
        super().__init__(device)
        self.add_state("scores", [])

    def update(self, scores, target):
        self.scores.append(scores.softmax(-1))  # guilty: score_list GS402|GS702|GS703

    def compute(self):
        return torch.cat(self.scores).sort(0).values


# quiet: score_buffer
class BufferedScores(Metric):
    def __init__(self, device, most=256, classes=5):
        super().__init__(device)
        self.add_state("scores", torch.zeros(most, classes, device=device))
        self.add_state("cursor", torch.zeros(1, dtype=torch.long, device=device))

    def update(self, scores, target):
        rows = self.cursor + torch.arange(len(scores), device=self.device)
        self.scores.index_copy_(0, rows % len(self.scores), scores.softmax(-1))
        self.cursor.add_(len(scores))

    def compute(self):
        return self.scores.sum(0)


class DistinctThresholds(Metric):
    def update(self, scores, target):
        self.thresholds = scores.flatten().unique()  # guilty: thresholds GS201

    def compute(self):
        return self.thresholds.mean()


class CheckedTarget(AccuracyTensor):
    def __init__(self, device, num_classes=5):
        super().__init__(device)
        self.num_classes = num_classes

    def _validate(self, target):
        if target.min() < 0 or target.max() >= self.num_classes:  # guilty: target_range GS102
            raise ValueError("a target is out of range")

    def update(self, scores, target):
        self._validate(target)
        super().update(scores, target)


# quiet: target_dtype
class TypedTarget(CheckedTarget):
    def _validate(self, target):
        if target.is_floating_point() or target.ndim != 1 or not len(target):
            raise ValueError("targets are class numbers")


class Perplexity(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.add_state("loss", torch.zeros((), device=device))

    def update(self, scores, target):
        self.loss.copy_(torch.nn.functional.cross_entropy(scores, target))

    def compute(self):
        return torch.full((1,), math.exp(self.loss), device=self.device)  # guilty: perplexity GS101
