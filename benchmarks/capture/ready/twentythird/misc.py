import torch
import torch.nn as nn
import torch.nn.functional as F

from graphsafe import Step


class ActorCritic(nn.Module):
    def __init__(self, obs=6, actions=3, d=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, d), nn.Tanh(), nn.Linear(d, d), nn.Tanh())
        self.pi, self.v = nn.Linear(d, actions), nn.Linear(d, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


def build_ppo_plateau(device, n=32, minibatch=8):
    """Sound: the minibatch's rows are an input, the rate is a tensor that the plateau scheduler fills, and the KL weight is a tensor."""
    model = ActorCritic().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(3e-3, device=device), eps=1e-5, capturable=True)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.7, patience=3)
    obs, act = torch.randn(n, 6, device=device), torch.randint(0, 3, (n,), device=device)
    adv, ret, old = torch.randn(n, device=device), torch.randn(n, device=device), torch.full((n,), -1.1, device=device)
    kl_weight = torch.full((), 0.2, device=device)
    last = {}

    def update(rows):
        opt.zero_grad(set_to_none=False)
        logits, value = model(obs[rows])
        logp_all = logits.log_softmax(-1)
        logp = logp_all.gather(1, act[rows, None]).squeeze(1)
        ratio = (logp - old[rows]).exp()
        a = adv[rows]
        a = (a - a.mean()) / (a.std() + 1e-8)
        policy = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
        kl = (old[rows] - logp).mean()
        loss = policy + 0.5 * F.mse_loss(value, ret[rows]) + kl_weight * kl + 0.01 * (logp_all.exp() * logp_all).sum(-1).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        last["loss"], last["kl"] = loss.detach(), kl.detach()
        return last["loss"], last["kl"]

    update(torch.arange(minibatch, device=device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randperm(n)[:minibatch])
        if k % 8 == 7:
            plateau.step(last["loss"].item())
            kl_weight.mul_(1.5 if last["kl"].item() > 0.02 else 0.8).clamp_(0.01, 2.0)
            adv.copy_(torch.randn(n)), ret.copy_(torch.randn(n))

    return Step(update, (torch.arange(minibatch, device=device),), refresh=refresh)
