import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

from negatives import NegativeQueue


def evaluation(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        with torch.no_grad():
            return fn(*args, **kwargs)

    return wrapper


class MomentumContrast:
    def __init__(self, device, dim: int = 16, queue: int = 40):
        self.query = nn.Linear(24, dim).to(device)
        self.key = nn.Linear(24, dim).to(device)
        self.key.load_state_dict(self.query.state_dict())
        self.negatives = NegativeQueue(queue, dim, device)
        self.temperature = 0.1

    @evaluation
    def score(self, left, right):
        q = F.normalize(self.query(left), dim=-1)
        k = F.normalize(self.key(right), dim=-1)
        positive = (q * k).sum(-1, keepdim=True)
        logits = torch.cat((positive, self.negatives.similarity(q)), dim=1) / self.temperature
        self.negatives.push(k)
        return -logits.log_softmax(-1)[:, 0]


def build(device):
    torch.manual_seed(27)
    moco = MomentumContrast(device)
    views = torch.randn(2, 8, 24, device=device)
    return moco.score, (views[0].clone(), views[1].clone())


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args).mean().item())
