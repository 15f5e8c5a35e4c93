"""Image features are scattered over the positions of a placeholder token by masked_scatter."""
import torch

import graphsafe


def build(device):
    emb = torch.randn(32, 8).to(device)

    def merge(ids, feats):
        x = emb[ids]
        return x.masked_scatter((ids == 7)[..., None], feats)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(5, 10, (2, 24)))
        args[1].copy_(torch.randn(48, 8))

    args = (torch.randint(32, (2, 24), device=device), torch.randn(48, 8, device=device))
    return graphsafe.Step(merge, args, refresh=refresh)
