import torch

from .envs import CartPoles
from .policy import ActorCritic, ObsNorm


def capture(fn, device):
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            fn()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        fn()
    return graph


class PPO:
    def __init__(self, device, envs=64, horizon=16):
        self.device, self.horizon = device, horizon
        self.env = CartPoles(envs, device)
        self.norm = ObsNorm(CartPoles.obs_dim, device)
        self.net = ActorCritic(CartPoles.obs_dim).to(device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=3e-4)
        shape = (horizon, envs)
        self.obs = torch.zeros(*shape, CartPoles.obs_dim, device=device)
        self.act, self.logp, self.val, self.rew, self.done, self.adv = (
            torch.zeros(shape, device=device) for _ in range(6)
        )
        self.t = 0
        self.lengths = []
        self.rollout_graph = capture(self._act, device)
        self.update_graph = capture(self._loss, device)

    @torch.no_grad()
    def _act(self):
        obs = self.norm(self.env.state)
        mu, value = self.net(obs)
        action = mu + torch.randn_like(mu) * self.net.log_std.exp()
        t = self.t
        self.obs[t].copy_(obs)
        self.act[t].copy_(action)
        self.val[t].copy_(value)
        self.logp[t].copy_(self.net.log_prob(mu, action))
        reward, done = self.env.step(10.0 * action.tanh())
        self.rew[t].copy_(reward)
        self.done[t].copy_(done)

    def _loss(self):
        mu, value = self.net(self.obs.flatten(0, 1))
        ratio = (self.net.log_prob(mu, self.act.flatten()) - self.logp.flatten()).exp()
        adv = self.adv.flatten()
        policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        critic = (value - (adv + self.val.flatten())).square().mean()
        (policy + 0.5 * critic).backward()

    @torch.no_grad()
    def _advantages(self, gamma=0.99, lam=0.95):
        _, nxt = self.net(self.norm(self.env.state))
        last = torch.zeros_like(nxt)
        for t in reversed(range(self.horizon)):
            live = 1.0 - self.done[t]
            last = self.rew[t] + gamma * nxt * live - self.val[t] + gamma * lam * live * last
            self.adv[t].copy_(last)
            nxt = self.val[t]

    def iterate(self, epochs=4):
        for self.t in range(self.horizon):
            self.rollout_graph.replay()
            self.lengths.extend(self.env.final[self.env.finished].tolist())
        self._advantages()
        for _ in range(epochs):
            self.opt.zero_grad()
            self.update_graph.replay()
            self.opt.step()
        self.norm.update(self.obs.flatten(0, 1))
