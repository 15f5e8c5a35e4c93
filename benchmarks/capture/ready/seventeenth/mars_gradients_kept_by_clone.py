"""MARS, a step corrected by the change of the gradient: faulty, a clone of the last gradient is kept in a state."""
import torch

import graphsafe


class Mars:
    def __init__(self, params, lr=0.05, gamma=0.4):
        self.groups = [{"params": list(params), "options": {"lr": lr, "gamma": gamma}}]
        self.state = {"blocks": [[{"last": torch.zeros_like(p)} for p in group["params"]] for group in self.groups]}

    @torch.no_grad()
    def step(self):
        for group, block in zip(self.groups, self.state["blocks"], strict=True):
            options = group["options"]
            for p, kept in zip(group["params"], block, strict=True):
                corrected = p.grad + options["gamma"] * (p.grad - kept["last"])
                kept["last"] = p.grad.clone()
                p.add_(corrected / (corrected.norm() + 1.0), alpha=-options["lr"])


def build(device):
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 1)).to(device)
    optimizer = Mars(model.parameters())

    def step(x, y):
        model.zero_grad(set_to_none=False)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(10, 4))
        args[1].copy_(args[0].prod(1, keepdim=True))

    return graphsafe.Step(step, (torch.randn(10, 4, device=device), torch.randn(10, 1, device=device)), refresh=refresh)
