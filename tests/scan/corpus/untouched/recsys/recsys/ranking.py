import random

import torch


def negatives(scores, count=2):
    drawn = random.sample(range(scores.shape[1]), count)  # guilty: drawn_negatives GS504
    return scores[:, drawn]  # guilty: drawn_negatives GS302|GS504


class Gain:
    """Discounted cumulative gain at k."""

    def __init__(self, k):
        self.k, self.values = k, []

    def update(self, scores, relevance):
        order = scores.argsort(descending=True)[: self.k]
        discount = torch.arange(2, self.k + 2, device=scores.device).log2()
        gain = (relevance[order] / discount).sum()
        self.values.append(float(gain))  # guilty: gain_values GS101
        return gain


class Diversified:
    def __init__(self, count=2):
        self.count = count

    def rank(self, scores, similarity):
        picked = []
        while len(picked) < self.count:
            best = int(scores.argmax())  # guilty: diversified GS101
            picked.append(best)
            scores = scores - similarity[best]
        return scores


# quiet: diversified_gather
class DiversifiedGather(Diversified):
    def rank(self, scores, similarity):
        for _ in range(self.count):
            best = scores.argmax(keepdim=True)
            scores = scores - similarity.index_select(0, best)[0]
        return scores


class LinearBandit:
    def __init__(self, size, device):
        self.precision = torch.eye(size, device=device)

    def select(self, arms):
        self.precision.addmm_(arms.T, arms)
        factor = torch.linalg.cholesky(self.precision)  # guilty: bandit_factor GS106
        return torch.linalg.solve_triangular(factor, arms.T, upper=False).norm(dim=0)


class Describe:
    """A hook that tells how the scores are spread."""

    def __init__(self):
        self.lines = []

    def __call__(self, module, args, output):
        self.lines.append(f"{type(module).__name__}: {output.amax():.2f}")  # guilty: score_line GS104
        return output + 0.0
