"""The loader's tag on the tensor is only counted; the tower is chosen by a device index."""
import collections

import torch

import graphsafe


def build(device):
    towers = torch.randn(2, 16, 8).to(device)
    which = torch.zeros(1, dtype=torch.long, device=device)
    seen = collections.Counter()

    def encode(batch):
        seen[getattr(batch, "modality", "image")] += 1
        return batch @ towers.index_select(0, which)[0]

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        args[0].modality = "audio" if k % 3 == 2 else "image"
        which.fill_(int(args[0].modality == "audio"))

    return graphsafe.Step(encode, (torch.randn(4, 16, device=device),), refresh=refresh)
