"""Full-batch curve fitting with capturable Rprop, clipped to a box by a hook after each step."""

import torch

import graphsafe


def build(device):
    curve = torch.nn.Parameter(torch.tensor([0.2, 0.2, 0.2], device=device))
    optimizer = torch.optim.Rprop([curve], lr=0.01, capturable=True)

    @optimizer.register_step_post_hook
    def keep_in_box(opt, args, kwargs):
        with torch.no_grad():
            curve.clamp_(-3, 3)

    t = torch.linspace(0, 1, 32, device=device)

    def step(target):
        optimizer.zero_grad(set_to_none=False)
        model = curve[0] * torch.sin(6 * t + curve[1]) + curve[2]
        loss = (model - target).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), curve.detach().clone()

    def refresh(args, kwargs, k):
        phase = k // 25
        args[0].copy_(torch.sin(6 * torch.linspace(0, 1, 32) + 0.3 * phase) + 0.1 * phase)

    return graphsafe.Step(step, (torch.rand(32, device=device),), refresh=refresh)
