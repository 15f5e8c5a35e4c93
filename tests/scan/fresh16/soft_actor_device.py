"""One update of a soft actor-critic: critics, actor, temperature and targets in one step, all on the device."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, STATE, ACTION, DISCOUNT = 32, 8, 3, 0.98


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


class Critics(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = mlp(STATE + ACTION, 1), mlp(STATE + ACTION, 1)

    def forward(self, state, action):
        both = torch.cat((state, action), -1)
        return self.one(both), self.two(both)


class SoftActor:
    def __init__(self, device):
        self.actor = mlp(STATE, 2 * ACTION).to(device)
        self.critics = Critics().to(device)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = torch.zeros((), device=device, requires_grad=True)
        self.opt = torch.optim.Adam(self.groups(), lr=3e-4, capturable=True)
        self.updates = torch.zeros((), dtype=torch.long, device=device)
        self.pace = torch.tensor([0.0, 0.01], device=device)

    def groups(self):
        return [*self.actor.parameters(), *self.critics.parameters(), self.log_alpha]

    def act(self, state):
        mean, spread = self.actor(state).chunk(2, -1)
        spread = spread.clamp(-4, 1).exp()
        raw = mean + spread * torch.randn_like(mean)
        action = raw.tanh()
        logp = -0.5 * ((raw - mean) / spread).square() - spread.log() - (1 - action.square() + 1e-5).log()
        return action, logp.sum(-1, keepdim=True)

    def __call__(self, state, action, reward, after):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            move, logp = self.act(after)
            goal = reward + DISCOUNT * (torch.minimum(*self.targets(after, move)) - alpha * logp)
        one, two = self.critics(state, action)
        critic_loss = F.mse_loss(one, goal) + F.mse_loss(two, goal)
        move, logp = self.act(state)
        weights = {name: p.detach() for name, p in self.critics.named_parameters()}
        frozen = torch.func.functional_call(self.critics, weights, (state, move))
        actor_loss = (alpha * logp - torch.minimum(*frozen)).mean()
        alpha_loss = -(self.log_alpha * (logp.detach() - ACTION)).mean()
        self.opt.zero_grad(set_to_none=True)
        (critic_loss + actor_loss + alpha_loss).backward()
        self.opt.step()
        with torch.no_grad():
            pace = self.pace.gather(0, (self.updates % 2).view(1))
            for slow, fast in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                slow.lerp_(fast, pace)
            self.updates.add_(1)
        return critic_loss.detach()


def build(device):
    torch.manual_seed(14)
    step = SoftActor(device)
    state, after = torch.randn(2, BATCH, STATE, device=device)
    action = torch.rand(BATCH, ACTION, device=device) * 2 - 1
    return step, (state.clone(), action, torch.randn(BATCH, 1, device=device), after.clone())
