"""The small model and its state."""

import torch
from torch import nn

TREE = [[1, 0, 0], [1, 1, 0], [1, 0, 1]]


class TreeDrafter:
    def mask(self, scores):
        return torch.tensor(TREE, device=scores.device).bool()  # guilty: tree_mask GS301

    def propose(self, scores):
        return scores.masked_fill(~self.mask(scores), -1e9).softmax(-1)


class StaticTreeDrafter(TreeDrafter):
    # quiet: tree_mask_once
    def __init__(self, device):
        self._mask = torch.tensor(TREE, device=device).bool()

    # quiet: tree_mask_once
    def mask(self, scores):
        return self._mask


class Rollback:
    """Drops the last state when another comes."""

    def __init__(self, size, device):
        self.states = [torch.zeros(size, device=device)] * 3

    def push(self, state):
        self.states.append(self.states[-1] * 0.5 + state)  # guilty: rolled_back GS703|GS402
        del self.states[0]  # guilty: rolled_back GS703|GS402
        return torch.stack(self.states)


class AdaptiveLength:
    """Drafts one, two or three tokens in turn."""

    def __init__(self, most=3):
        self.most, self._k = most, 0

    @property
    def k(self):
        return self._k + 1

    def propose(self, logits):
        self._k = self.k % self.most  # guilty: draft_length GS702
        return logits[: self.k].softmax(-1).sum(0)  # guilty: draft_length GS702


class Heads(nn.Module):
    def __init__(self, dim, count=3):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(count, dim, dim))
        self.choose = nn.Linear(dim, count)

    def best(self, x):
        return self.choose(x).mean(0).argmax()

    def forward(self, x):
        return x @ self.weights[self.best(x)]  # guilty: best_head GS101|GS203


class PrefixCache(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(10, dim)
        self.known = {}

    def key(self, ids):
        return tuple(ids.tolist())  # guilty: prefix_key GS101

    def forward(self, ids):
        key = self.key(ids)
        if key not in self.known:
            self.known[key] = self.embed(ids).sum(0)
        return self.known[key]


class Positions(nn.Module):
    def __init__(self, dim, most=64):
        super().__init__()
        self.table = nn.Embedding(most, dim)
        self.past = 0

    def ids(self, n, device):
        ids = torch.arange(self.past, self.past + n, device=device)  # guilty: past_positions GS702
        self.past += n  # guilty: past_positions GS702
        return ids

    def forward(self, x):
        return x + self.table(self.ids(x.shape[0], x.device))


class LastHidden(nn.Module):
    """The draft starts from what the target left."""

    def __init__(self, dim, device):
        super().__init__()
        self.mix = nn.Linear(2 * dim, dim)
        self.hidden = torch.zeros(2, dim, device=device)

    def forward(self, x):
        out = self.mix(torch.cat([x, self.hidden], -1))
        self.keep(out.detach())
        return out

    def keep(self, hidden):
        object.__setattr__(self, "hidden", hidden)  # guilty: last_hidden GS703


# quiet: last_hidden_kept
class LastHiddenKept(LastHidden):
    def keep(self, hidden):
        self.hidden.copy_(hidden)
