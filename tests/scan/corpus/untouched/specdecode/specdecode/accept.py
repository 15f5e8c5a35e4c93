"""Which of the drafted tokens stand."""

import torch


def accepted_prefix(draft, target):
    count = int((draft == target).cumprod(0).sum())  # guilty: accepted_prefix GS101
    return draft[:count].sum() + target.float().mean()


# quiet: accepted_mask
def accepted_mask(draft, target):
    kept = (draft == target).cumprod(0).bool()
    return torch.where(kept, draft, -1), target * 2


def accepted_until(draft, target):
    total = torch.zeros((), device=draft.device)
    for mine, theirs in zip(draft, target, strict=True):
        if mine != theirs:  # guilty: first_rejected GS102
            break
        total = total + mine
    return total + target.float().mean()


class Rejection:
    """Accepts a token with the ratio of its probabilities."""

    def uniform(self, like):
        return torch.rand(len(like)).to(like.device)  # guilty: host_uniform GS304|GS504

    def verify(self, draft, target):
        return torch.where(self.uniform(draft) < target / draft, draft, target)


# quiet: device_uniform
class DeviceRejection(Rejection):
    def uniform(self, like):
        return torch.rand_like(like)


class Lookup:
    """Drafts what followed the last token when it came up before."""

    def __init__(self, length=2):
        self.length = length

    def propose(self, tokens):
        known = tokens.tolist()  # guilty: lookup_tokens GS101
        at = known.index(known[-1])
        return tokens[at : at + self.length].sum() + tokens


class Banned:
    def __call__(self, logits, allowed):
        columns = torch.where(~allowed)[0]  # guilty: banned_columns GS201
        return logits.index_fill(-1, columns, -1e9)


PROCESSORS = {"banned": Banned()}


def process(logits, allowed, names=("banned",)):
    for name in names:
        logits = PROCESSORS[name](logits, allowed)
    return logits.softmax(-1)
