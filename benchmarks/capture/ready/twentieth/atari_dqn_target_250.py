"""CleanRL's Atari DQN update: Nature CNN, target network copied every 250 gradient steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class QNetwork(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
        )

    def forward(self, x):
        return self.network(x / 255.0)


class Learner:
    def __init__(self, device, frequency=250, tau=1.0):
        self.q, self.target = QNetwork().to(device), QNetwork().to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-4, capturable=True)
        self.frequency, self.tau, self.global_step = frequency, tau, 0

    def update(self, obs, actions, rewards, next_obs, dones):
        with torch.no_grad():
            target_max, _ = self.target(next_obs).max(dim=1)
            td_target = rewards + 0.99 * target_max * (1 - dones)
        old_val = self.q(obs).gather(1, actions).squeeze()
        loss = F.mse_loss(td_target, old_val)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.global_step += 1
        if self.global_step % self.frequency == 0:
            with torch.no_grad():
                for t, p in zip(self.target.parameters(), self.q.parameters()):
                    t.copy_(self.tau * p + (1.0 - self.tau) * t)
        return loss.detach()


def build(device, n=8):
    learner = Learner(device)
    args = (torch.rand(n, 4, 84, 84, device=device) * 255, torch.randint(0, 6, (n, 1), device=device), torch.randn(n, device=device),
            torch.rand(n, 4, 84, 84, device=device) * 255, torch.zeros(n, device=device))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(n, 4, 84, 84) * 255)
        args[1].copy_(torch.randint(0, 6, (n, 1)))
        args[2].copy_(torch.randn(n))
        args[3].copy_(torch.rand(n, 4, 84, 84) * 255)
        args[4].copy_((torch.rand(n) < 0.05).float())

    return graphsafe.Step(learner.update, args, refresh=refresh)
