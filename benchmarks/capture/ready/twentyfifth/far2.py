"""Controls for far.py."""
import torch

import graphsafe
from again import Env, env_step
from epochs import N, data, write
from far import FarMelt, LastShort


class PlainMelt(FarMelt):
    pass


def build_far_melt_plain(device):
    """As far_melt, without a reset."""
    m = PlainMelt(device)
    return graphsafe.Step(m.host, (), refresh=lambda args, kwargs, k: m.field.copy_(torch.randn(2)))


def build_far_short_position(device):
    """As far_short_loader, with a position in a dictionary instead of a DataLoader."""
    t = LastShort(device)
    x, y = data(5000 * N + 3)
    place = {"at": 0}

    def refresh(args, kwargs, k):
        at = place["at"]
        write(t, args, x[at : at + N], y[at : at + N])
        place["at"] = at + N if at + N < len(x) else 0

    return graphsafe.Step(t.counted, t.inputs(), refresh=refresh)


class ThirdEpisode(Env):
    def third(self):
        self.state.zero_()
        self.episodes += 1
        if self.episodes % 3 == 0:
            self.target.weight.data = self.q.weight.data.clone()


def build_episode_third(device):
    env = ThirdEpisode(device)
    return env_step(env, env.third, device)
