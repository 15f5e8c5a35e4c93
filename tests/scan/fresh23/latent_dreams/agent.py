import torch
from torch import nn

from .returns import ReturnScale, lambda_returns
from .rssm import RSSM, Head


class Dreamer(nn.Module):
    def __init__(self, device, actions=2, horizon=6):
        super().__init__()
        self.horizon = horizon
        self.world = RSSM(actions)
        self.reward = Head(self.world.width, 1)
        self.critic = Head(self.world.width, 1)
        self.actor = Head(self.world.width, actions)
        self.to(device)
        self.scale = ReturnScale(device)
        self.side = torch.cuda.Stream(device)

    def forward(self, h, z):
        feats, acts = [], []
        for _ in range(self.horizon):
            feat = torch.cat([h, z], -1)
            action = torch.tanh(self.actor(feat))
            h, z = self.world.imagine(h, z, action)
            feats.append(torch.cat([h, z], -1))
            acts.append(action)
        feats = torch.stack(feats)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            reward = self.reward(feats).squeeze(-1)
        value = self.critic(feats).squeeze(-1)
        returns = lambda_returns(reward, value)
        torch.cuda.current_stream().wait_stream(self.side)
        advantage = self.scale(returns) - self.scale(value)
        entropy = torch.stack(acts).square().mean()
        return advantage.mean() - 1e-3 * entropy, returns


def build(device):
    torch.manual_seed(6)
    agent = Dreamer(device).eval()
    for p in agent.parameters():
        p.requires_grad_(False)
    h = torch.randn(12, agent.world.deter, device=device)
    z = torch.zeros(12, agent.world.groups * agent.world.classes, device=device)
    return agent, (h, z)
