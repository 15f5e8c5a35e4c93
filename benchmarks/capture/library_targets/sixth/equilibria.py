"""Steps of torchdeq: layers whose output is a fixed point."""

import torch
from torch import nn


def settled(kind="deq", reg=False, norm=None, eval_mode=False, **options):
    def build(device):
        from torchdeq import get_deq
        from torchdeq.loss import fp_correction, jac_reg
        from torchdeq.norm import apply_norm, reset_norm

        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.mix, self.inject, self.head = nn.Linear(8, 8), nn.Linear(4, 8), nn.Linear(8, 3)
                self.deq = get_deq(**options)

            def forward(self, x):
                injected = self.inject(x)

                def turn(z):
                    return torch.tanh(0.5 * self.mix(z) + injected)

                found, info = self.deq(turn, torch.zeros_like(injected))
                return [self.head(z) for z in found], info, (turn, found[-1])

        model = Cell()
        if norm:
            apply_norm(model.mix, norm)
        model = model.to(device)
        model.train(not eval_mode)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def step(x, y):
            if norm:
                reset_norm(model)
            if eval_mode:
                with torch.no_grad():
                    outs, info, _ = model(x)
                return outs[-1], info["nstep"], info["rel_lowest"]
            outs, info, (turn, z) = model(x)
            loss = fp_correction(nn.functional.cross_entropy, (outs, y)) if reg else None
            loss = loss if reg else nn.functional.cross_entropy(outs[-1], y)
            if reg:
                z = z.detach().requires_grad_()
                loss = loss + 0.1 * jac_reg(turn(z), z)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach(), info["abs_lowest"]

        return step, (torch.randn(6, 4, device=device), torch.randint(0, 3, (6,), device=device))

    return build


fixed_point_training = settled(ift=True, f_max_iter=10, b_max_iter=6)
anderson_training = settled(f_solver="anderson", b_solver="anderson", ift=True, f_max_iter=10, b_max_iter=6)
broyden_training = settled(f_solver="broyden", b_solver="broyden", hook_ift=True, f_max_iter=10, b_max_iter=6)
spectral_training = settled(f_solver="anderson", grad=3, norm="spectral_norm", f_max_iter=8)
corrected_fixed_training = settled(n_states=3, grad=1, norm="weight_norm", reg=True, f_max_iter=9)
evaluated_fixed_point = settled(f_solver="broyden", f_stop_mode="rel", f_tol=1e-2, eval_mode=True, f_max_iter=12)
sliced_fixed_training = settled(core="sliced", n_states=2, grad=[2, 1], f_max_iter=8)
