"""Grid world with masked resets, so that a rollout step has no data-dependent shape."""
import numpy as np
import torch


class Maze:
    def __init__(self, rows, cols, density, seed):
        rng = np.random.default_rng(seed)
        walls = rng.random((rows, cols)) < density
        walls[0, 0] = walls[-1, -1] = False
        self.walls = torch.from_numpy(walls)
        free = (~self.walls).nonzero()
        if not bool(self.walls.any()):
            print("warning: empty maze")
        self.free = free
        self.openness = self.free.shape[0] / self.walls.numel()


class Batched:
    def __init__(self, count, device):
        self.count, self.device = count, device
        self.age = torch.zeros(count, dtype=torch.long, device=device)
        self.episodes = torch.zeros(count, dtype=torch.long, device=device)

    def step(self, action):
        reward, done = self.transition(action)
        self.age.add_(1)
        done = done | (self.age >= self.horizon)
        self.restart(done)
        self.age.masked_fill_(done, 0)
        self.episodes.add_(done)
        return self.observe(), reward, done

    def summary(self):
        total = self.episodes.sum().item()
        return {"episodes": total, "per_env": self.episodes.tolist() if total else []}


class GridWorld(Batched):
    horizon = 200

    def __init__(self, maze, count, device):
        super().__init__(count, device)
        self.walls = maze.walls.to(device)
        self.starts = maze.free.to(device)
        self.size = torch.tensor(maze.walls.shape, device=device)
        self.moves = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]], device=device)
        self.goal = self.size - 1
        self.pos = torch.zeros(count, 2, dtype=torch.long, device=device)
        self.restart(torch.ones(count, dtype=torch.bool, device=device))

    def restart(self, which):
        pick = (torch.rand(self.count, device=self.device) * self.starts.shape[0]).long()
        fresh = self.starts.index_select(0, pick)
        self.pos.copy_(torch.where(which[:, None], fresh, self.pos))

    def transition(self, action):
        want = self.pos + self.moves[action]
        inside = ((want >= 0) & (want < self.size)).all(-1)
        safe = torch.minimum(want.clamp_min(0), self.goal)
        blocked = self.walls[safe[:, 0], safe[:, 1]] | ~inside
        self.pos.copy_(torch.where(blocked[:, None], self.pos, safe))
        done = (self.pos == self.goal).all(-1)
        return done.float() - 0.01 * blocked.float(), done

    def observe(self):
        return torch.cat([self.pos / self.size, (self.goal - self.pos) / self.size], -1)


def build(device):
    torch.manual_seed(0)
    env = GridWorld(Maze(9, 9, 0.2, 3), 32, device)
    return env.step, (torch.randint(0, 4, (32,), device=device),)
