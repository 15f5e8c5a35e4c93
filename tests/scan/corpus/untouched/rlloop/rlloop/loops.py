import torch


class Walk:
    """An environment that lives on the host."""

    def __init__(self, size):
        self.size = size

    def step(self, action):
        return action.clip(-1, 1) * 0.5


class Collector:
    def __init__(self, env, policy):
        self.env, self.policy = env, policy

    def step(self, obs):
        action = self.policy(obs).detach().cpu().numpy()  # guilty: environment_step GS103
        return torch.from_numpy(self.env.step(action)).to(obs.device)  # guilty: environment_step GS304


class Patience:
    def __init__(self, best):
        self.best, self.stopped = best, False

    def __call__(self, learner, loss):
        if loss > self.best:  # guilty: patience GS102
            self.stopped = True


class Learner:
    def __init__(self, *callbacks):
        self.callbacks = callbacks

    def learn(self, batch):
        loss = batch.square().mean()
        for callback in self.callbacks:
            callback(self, loss)
        return loss * 2
