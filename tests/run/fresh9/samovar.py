"""Actor and learner share one network: the actor's forward runs in mixed precision and is recorded."""

import torch
import torch.nn.functional as F
from torch import nn

ENVS, OBS, ACTIONS, CHUNK, UPDATES = 48, 16, 5, 8, 12


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU())
        self.actor = nn.Linear(64, ACTIONS)
        self.critic = nn.Linear(64, 1)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(obs)
        return self.actor(hidden).float(), self.critic(hidden).squeeze(-1).float()


class Actor:
    def __init__(self, policy: Policy, device: torch.device) -> None:
        self.policy = policy
        self.obs = torch.randn(ENVS, OBS, device=device)
        self.action = torch.zeros(ENVS, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.choose()
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(self.graph):
                self.choose()

    def choose(self) -> None:
        logits, _ = self.policy(self.obs)
        self.action.copy_(logits.argmax(-1))

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        self.obs.copy_(obs)
        self.graph.replay()
        return self.action.clone()


class World:
    def __init__(self, device: torch.device) -> None:
        self.state = torch.randn(ENVS, OBS, device=device)
        self.drift = 0.9 * torch.eye(OBS, device=device)
        self.push = 0.3 * torch.randn(ACTIONS, OBS, device=device)

    def step(self, action: torch.Tensor) -> torch.Tensor:
        self.state = self.state @ self.drift + self.push[action] + 0.1 * torch.randn_like(self.state)
        return -self.state.square().mean(-1)


class Learner:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def learn(self, obs: torch.Tensor, actions: torch.Tensor, rewards: torch.Tensor) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, value = self.policy(obs)
        chosen = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
        loss = F.mse_loss(value, rewards) - (chosen * (rewards - value.detach())).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main() -> None:
    torch.manual_seed(19)
    device = torch.device("cuda")
    policy = Policy().to(device)
    actor, learner, world = Actor(policy, device), Learner(policy), World(device)
    curve = []
    for _ in range(UPDATES):
        seen, actions, rewards = [], [], []
        for _ in range(CHUNK):
            seen.append(world.state)
            actions.append(actor.act(world.state))
            rewards.append(world.step(actions[-1]))
        learner.learn(torch.cat(seen), torch.cat(actions), torch.cat(rewards))
        curve.append(torch.cat(rewards).mean())
    print("reward", [round(value, 4) for value in torch.stack(curve).tolist()])
    with torch.no_grad():
        fresh = policy(world.state)[0].argmax(-1)
    print("agree with the learner", f"{(actor.act(world.state) == fresh).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
