"""Flies the fleet with a linear controller under a curriculum."""

import torch
from curriculum import Curriculum
from world import FLEET, STATE, World


class Recorder:
    def __init__(self, steps):
        self.rewards = torch.zeros(steps, FLEET, device="cuda")
        self.landings = 0

    def add(self, step, reward, rows):
        self.rewards[step].copy_(reward)
        self.landings += rows.shape[0]


def fly(world, controller, curriculum, recorder, steps):
    state = world.state
    for step in range(steps):
        state, reward, down = world.step(controller(state))
        rows = down.nonzero().squeeze(-1)
        world.restart(rows)
        recorder.add(step, reward, rows)
        curriculum.after(step, reward)


@torch.no_grad()
def main():
    torch.manual_seed(17)
    world = World()
    world.capture()
    world.state.uniform_()
    recorder = Recorder(80)
    controller = torch.nn.Linear(STATE, 2, device="cuda")
    fly(world, controller, Curriculum(world), recorder, 80)
    torch.save({"rewards": recorder.rewards, "landings": recorder.landings}, "fleet.pt")


if __name__ == "__main__":
    main()
