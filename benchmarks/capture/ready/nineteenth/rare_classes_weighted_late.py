"""Deferred re-weighting of rare classes: faulty, the loop assigns a new buffer to the weight of the criterion."""
import torch

import graphsafe


def build(device, classes=5, dim=8):
    shares = 0.5 ** torch.arange(classes).float()
    model = torch.nn.Linear(dim, classes).to(device)
    criterion = torch.nn.CrossEntropyLoss(weight=torch.ones(classes, device=device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, labels):
        loss = criterion(model(x), labels)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss.detach(), model.bias.detach().clone()

    def refresh(args, kwargs, k):
        args[1].copy_(torch.multinomial(shares, 20, replacement=True))
        args[0].copy_(torch.randn(20, dim) + torch.nn.functional.one_hot(args[1].cpu(), dim))
        if k == 64:
            balanced = (1 / shares / (1 / shares).mean()).to(device)
            criterion.weight = balanced

    args = (torch.randn(20, dim, device=device), torch.arange(20, device=device) % classes)
    return graphsafe.Step(step, args, refresh=refresh)
