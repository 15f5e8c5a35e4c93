"""An actor that plays with a graph and a learner that sends new weights after every roll-out."""

import copy

import torch
from policy import ACT, OBS, Actor, Policy
from updater import WeightUpdater

WORKERS, STEPS, ROUNDS = 32, 20, 6


class Swarm:
    def __init__(self, device):
        self.state = torch.randn(WORKERS, OBS, device=device)
        self.push = torch.randn(ACT, OBS, device=device) * 0.1

    @torch.no_grad()
    def step(self, action):
        self.state.mul_(0.98).add_(action @ self.push)
        return self.state, -self.state.square().mean(1)


def learn(learner, optimizer, observed, returns):
    _, value = learner(observed)
    loss = (value - returns).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def rollout(actor, swarm, observed, rewards):
    state = swarm.state
    for step in range(STEPS):
        observed[step].copy_(state)
        action, _ = actor.act(state)
        state, reward = swarm.step(action)
        rewards[step].copy_(reward)
        if reward.mean() < -50:
            break


def main():
    torch.manual_seed(4)
    learner = Policy().cuda()
    actor = Actor(copy.deepcopy(learner).requires_grad_(False), WORKERS)
    actor.capture()
    updater = WeightUpdater(actor.policy)
    swarm = Swarm("cuda")
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)
    observed = torch.zeros(STEPS, WORKERS, OBS, device="cuda")
    rewards = torch.zeros(STEPS, WORKERS, device="cuda")
    for _ in range(ROUNDS):
        rollout(actor, swarm, observed, rewards)
        returns = rewards.flip(0).cumsum(0).flip(0)
        learn(learner, optimizer, observed, returns)
        updater.apply(dict(learner.named_parameters()))


if __name__ == "__main__":
    main()
