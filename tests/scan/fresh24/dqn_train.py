"""Double DQN on a grid world whose environments, replay memory and updates all live on the GPU."""
import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Settings:
    envs: int = 32
    side: int = 6
    capacity: int = 1024
    batch: int = 64
    gamma: float = 0.95
    lr: float = 0.02
    steps: int = 40
    sync_every: int = 10


class GridWorld:
    MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0))

    def __init__(self, s, device):
        self.s = s
        self.moves = torch.tensor(self.MOVES, device=device)
        self.place = torch.zeros(s.envs, 2, dtype=torch.int64, device=device)
        self.goal = torch.full((2,), s.side - 1, device=device)

    def state(self):
        return self.place.float() / self.s.side

    def step(self, action):
        self.place.add_(self.moves[action]).clamp_(0, self.s.side - 1)
        done = (self.place == self.goal).all(-1)
        self.place.masked_fill_(done.unsqueeze(-1), 0)
        return self.state(), done.float() - 0.01, done.float()


class QNet(nn.Module):
    def __init__(self, actions=4, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, actions))

    def forward(self, x):
        return self.net(x)


class PrioritizedMemory:
    def __init__(self, s, device):
        c = s.capacity
        self.s = s
        self.state, self.next = torch.zeros(c, 2, device=device), torch.zeros(c, 2, device=device)
        self.action = torch.zeros(c, dtype=torch.int64, device=device)
        self.reward, self.done = torch.zeros(c, device=device), torch.zeros(c, device=device)
        self.priority = torch.zeros(c)
        self.top = 0

    def add(self, state, action, reward, done, nxt):
        rows = slice(self.top, self.top + self.s.envs)
        self.state[rows], self.next[rows] = state, nxt
        self.action[rows], self.reward[rows], self.done[rows] = action, reward, done
        self.priority[rows] = 1.0
        self.top = (self.top + self.s.envs) % self.s.capacity

    def sample(self):
        rows = torch.multinomial(self.priority, self.s.batch, replacement=True)
        index = rows.pin_memory().to(self.state.device, non_blocking=True)
        batch = {
            "state": self.state[index], "next": self.next[index],
            "action": self.action[index], "reward": self.reward[index], "done": self.done[index],
        }
        return rows, batch

    def update(self, rows, error):
        self.priority[rows] = error.abs() + 1e-3


class Agent:
    def __init__(self, s, device):
        self.s, self.device = s, device
        self.online = QNet().to(device)
        self.target = copy.deepcopy(self.online)
        self.epsilon = 1.0
        self.obs = torch.zeros(s.envs, 2, device=device)
        self.batch = {
            "state": torch.zeros(s.batch, 2, device=device), "next": torch.zeros(s.batch, 2, device=device),
            "action": torch.zeros(s.batch, dtype=torch.int64, device=device),
            "reward": torch.zeros(s.batch, device=device), "done": torch.zeros(s.batch, device=device),
        }
        self.stream = torch.cuda.Stream(device)

    def act(self):
        with torch.no_grad():
            greedy = self.online(self.obs).argmax(-1)
            explore = torch.rand(self.s.envs, device=self.device) < self.epsilon
            chosen = torch.randint(4, (self.s.envs,), device=self.device)
            return torch.where(explore, chosen, greedy)

    def learn(self):
        b = self.batch
        with torch.no_grad():
            best = self.online(b["next"]).argmax(-1, keepdim=True)
            future = self.target(b["next"]).gather(1, best).squeeze(1)
            goal = b["reward"] + self.s.gamma * (1 - b["done"]) * future
        value = self.online(b["state"]).gather(1, b["action"].unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(value, goal)
        params = list(self.online.parameters())
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-self.s.lr)
        return (goal - value).detach()

    def _record(self, fn):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            fn()
            fn()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            result = fn()
        return graph, result

    def compile(self):
        self.act_graph, self.action = self._record(self.act)
        self.learn_graph, self.error = self._record(self.learn)

    def sync_target(self):
        self.target = copy.deepcopy(self.online)


def main():
    s, device = Settings(), torch.device("cuda")
    torch.manual_seed(1)
    env, memory, agent = GridWorld(s, device), PrioritizedMemory(s, device), Agent(s, device)
    agent.compile()
    state = env.state()
    earned = torch.zeros((), device=device)
    for step in range(s.steps):
        agent.obs.copy_(state)
        agent.act_graph.replay()
        nxt, reward, done = env.step(agent.action)
        memory.add(state, agent.action, reward, done, nxt)
        earned += reward.mean()
        state = nxt
        agent.epsilon = max(0.05, agent.epsilon * 0.97)

        rows, agent.batch = memory.sample()
        agent.learn_graph.replay()
        memory.update(rows, agent.error.cpu())
        if (step + 1) % s.sync_every == 0:
            agent.sync_target()
    print(f"reward per step {earned.item() / s.steps:.4f}, epsilon {agent.epsilon:.2f}")


if __name__ == "__main__":
    main()
