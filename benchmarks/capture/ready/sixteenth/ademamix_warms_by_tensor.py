"""AdEMAMix, an optimizer with warmed-up mixing: its state counts steps in a device tensor."""
import torch

import graphsafe


class AdEMAMix(torch.optim.Optimizer):
    def __init__(self, params, lr=2e-2, betas=(0.9, 0.99, 0.999), alpha=4.0, warm=50.0):
        super().__init__(params, {"lr": lr, "betas": betas, "alpha": alpha, "warm": warm})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["step"] = torch.zeros((), device=p.device)
                self.state[p].update({name: torch.zeros_like(p) for name in ("fast", "slow", "square")})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2, b3 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                state["step"] += 1
                t = state["step"]
                ramp = (t / group["warm"]).clamp(max=1.0)
                mixed = b1 + (b3 - b1) * ramp
                state["fast"].lerp_(p.grad, 1 - b1)
                state["slow"].mul_(mixed).add_(p.grad * (1 - mixed))
                state["square"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                scale = (state["square"] / (1 - b2**t)).sqrt() + 1e-6
                update = (state["fast"] / (1 - b1**t) + group["alpha"] * ramp * state["slow"]) / scale
                p.sub_(update * group["lr"])


def build(device):
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
    optimizer = AdEMAMix(model.parameters())

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 5))
        args[1].copy_(args[0].sum(1, keepdim=True).sin())

    return graphsafe.Step(step, (torch.randn(16, 5, device=device), torch.randn(16, 1, device=device)), refresh=refresh)
