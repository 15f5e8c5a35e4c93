"""Self-supervised training: weight decay rises in stages, as the loop sets it in the optimizer's groups."""

import torch

import graphsafe


def build(device):
    model = torch.nn.Linear(12, 12).to(device)
    lr = torch.tensor(0.01, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.04, capturable=True)

    def step(view_a, view_b):
        optimizer.zero_grad(set_to_none=False)
        a, b = model(view_a), model(view_b)
        loss = 2 - 2 * torch.cosine_similarity(a, b).mean() + (a.std(0) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), model.weight.norm().detach()

    def refresh(args, kwargs, k):
        if k % 50 == 49:
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.04 + 2.0 * (k // 50 + 1)
        x = torch.randn(8, 12)
        args[0].copy_(x + 0.1 * torch.randn(8, 12))
        args[1].copy_(x + 0.1 * torch.randn(8, 12))

    args = (torch.randn(8, 12, device=device), torch.randn(8, 12, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
