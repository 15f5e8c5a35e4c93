"""An encoder gets its mask by keyword. For batches without padding the collator leaves the keyword out."""

import torch

import graphsafe


def build(device):
    proj = torch.nn.Linear(8, 24).to(device).requires_grad_(False)
    mask = torch.ones(2, 6, dtype=torch.bool, device=device)

    def encode(x, *, mask=None):
        q, k, v = proj(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 8**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -1e4)
        return scores.softmax(-1) @ v

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 6, 8))
        mask.copy_(torch.arange(6) < torch.tensor([[3 + k % 3], [4]]))
        if k % 30 == 29:
            kwargs.pop("mask", None)
        else:
            kwargs["mask"] = mask

    return graphsafe.Step(encode, (torch.randn(2, 6, 8, device=device),), {"mask": mask}, refresh=refresh)
