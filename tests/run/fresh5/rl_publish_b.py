"""On-policy loop: a graphed actor collects, an eager learner updates.

The learner owns its own copy of the network; after every update its weights
are published to the actor.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")
ENVS, OBS, ACT, HORIZON = 32, 12, 4, 16


def make_policy():
    return nn.Sequential(
        nn.Linear(OBS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, ACT)
    ).to(device)


class LinearEnv:
    def __init__(self, seed):
        gen = torch.Generator().manual_seed(seed)
        self.drift = (torch.eye(OBS) * 0.9 + torch.randn(OBS, OBS, generator=gen) * 0.02).to(device)
        self.push = (torch.randn(ACT, OBS, generator=gen) * 0.1).to(device)
        self.start = torch.randn(ENVS, OBS, generator=gen).to(device)
        self.obs = self.start.clone()

    def reset(self):
        self.obs.copy_(self.start)
        return self.obs

    def step(self, action):
        self.obs.copy_(self.obs @ self.drift + torch.tanh(action) @ self.push)
        return self.obs


class GraphedActor:
    def __init__(self, policy):
        self.policy = policy
        self.obs = torch.zeros(ENVS, OBS, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                self.policy(self.obs)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.action = self.policy(self.obs)

    def act(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.action.clone()

    def pull(self, learner):
        weights = {name: value.detach().clone() for name, value in learner.state_dict().items()}
        self.policy.load_state_dict(weights)


def rollout(env, actor, horizon):
    obs = env.reset()
    for _ in range(horizon):
        seen = obs.clone()
        action = actor.act(seen)
        obs = env.step(action)
        yield seen, action, obs.clone()


def update(learner, opt, batch):
    obs = torch.cat([b[0] for b in batch])
    nxt = torch.cat([b[2] for b in batch])
    target = -nxt[:, :ACT]
    loss = F.mse_loss(learner(obs), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    torch.manual_seed(3)
    learner, policy = make_policy(), make_policy()
    policy.load_state_dict(learner.state_dict())
    actor = GraphedActor(policy)
    opt = torch.optim.SGD(learner.parameters(), lr=0.2)
    env = LinearEnv(seed=4)

    gaps, losses = [], []
    for _ in range(6):
        batch = list(rollout(env, actor, HORIZON))
        with torch.no_grad():
            for seen, action, _ in batch:
                gaps.append((policy(seen) - action).abs().max())
        losses.append(update(learner, opt, batch))
        actor.pull(learner)

    gap = float(torch.stack(gaps).nan_to_num(1e9).max())
    print("RESULT", [round(float(x), 5) for x in losses])
    print("CHECK ok" if gap < 1e-4 else f"CHECK wrong: actions are off by {gap:.4g}")


if __name__ == "__main__":
    main()
