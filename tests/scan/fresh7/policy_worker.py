"""Worker half of an on-policy setup: one graph a policy step; weights arrive from the learner between rollouts."""
import copy

import torch
import torch.nn as nn

OBS, ACT, ENVS, HORIZON = 24, 6, 128, 64


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.pi = nn.Linear(128, ACT)
        self.v = nn.Linear(128, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class PointEnv:
    def __init__(self, n, device):
        self.state = torch.randn(n, OBS, device=device)
        self.pull = torch.randn(ACT, OBS, device=device) * 0.1

    def step(self, act):
        self.state.mul_(0.98).add_(self.pull[act])
        return self.state, -self.state.square().mean(-1)


class Storage:
    def __init__(self, horizon, envs, device):
        self.logp = torch.zeros(horizon, envs, device=device)
        self.value = torch.zeros(horizon, envs, device=device)
        self.reward = torch.zeros(horizon, envs, device=device)

    def put(self, t, logp, value, reward):
        self.logp[t].copy_(logp)
        self.value[t].copy_(value)
        self.reward[t].copy_(reward)

    def view(self):
        return self.logp, self.value, self.reward


class Worker:
    def __init__(self, policy, device, seed=0):
        self.device = device
        self.policy = copy.deepcopy(policy).to(device).requires_grad_(False)
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)
        self.obs = torch.zeros(ENVS, OBS, device=device)
        self.store = Storage(HORIZON, ENVS, device)
        self.epoch = 0
        self.graph = None

    def _decide(self):
        logits, value = self.policy(self.obs)
        noise = torch.empty_like(logits).exponential_(generator=self.rng)
        act = (logits.softmax(-1) / noise).argmax(-1)
        logp = logits.log_softmax(-1).gather(-1, act.unsqueeze(-1)).squeeze(-1)
        return act, logp, value

    def arm(self):
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(s):
            for _ in range(3):
                self._decide()
        torch.cuda.current_stream(self.device).wait_stream(s)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.rng)
        with torch.cuda.graph(self.graph):
            self.act, self.logp, self.value = self._decide()

    def pull_weights(self, learner):
        fresh = {k: v.detach() for k, v in learner.state_dict().items()}
        self.policy.load_state_dict(fresh)
        self.epoch += 1

    def collect(self, env):
        self.obs.copy_(env.state)
        for t in range(HORIZON):
            self.graph.replay()
            state, reward = env.step(self.act)
            self.store.put(t, self.logp, self.value, reward)
            self.obs.copy_(state)
        return self.store.view()


def learn(policy, opt, batch):
    logps, values, rewards = batch
    ret = rewards.flip(0).cumsum(0).flip(0)
    adv = (ret - values) * logps.exp()
    loss = policy(torch.randn(ENVS, OBS, device=ret.device))[1].mean() * adv.mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()


def main(rounds=10):
    torch.manual_seed(17)
    dev = torch.device("cuda", torch.cuda.current_device())
    learner = Policy().to(dev)
    opt = torch.optim.Adam(learner.parameters(), lr=3e-4)
    worker, env = Worker(learner, dev), PointEnv(ENVS, dev)
    worker.arm()
    for _ in range(rounds):
        learn(learner, opt, worker.collect(env))
        worker.pull_weights(learner)


if __name__ == "__main__":
    main()
