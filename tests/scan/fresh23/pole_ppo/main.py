import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from pole_ppo.learner import PPO  # noqa: E402


def main(device="cuda"):
    torch.manual_seed(0)
    ppo = PPO(torch.device(device))
    for iteration in range(4):
        ppo.iterate()
        print(iteration, "reward", round(ppo.rew.mean().item(), 3), "episodes", len(ppo.lengths))


if __name__ == "__main__":
    main()
