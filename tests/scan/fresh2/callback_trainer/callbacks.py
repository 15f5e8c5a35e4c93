import json
import math

import torch


class Callback:
    every = 1

    def on_begin(self, trainer):
        pass

    def on_interval(self, trainer, step):
        pass

    def on_end(self, trainer):
        pass


class Log(Callback):
    def __init__(self, path, every=200):
        self.path, self.every = path, every

    def on_begin(self, trainer):
        self.file = open(self.path, "w")

    def on_interval(self, trainer, step):
        row = {"step": step, "loss": trainer.mean_loss().item(), "lr": trainer.lr.item()}
        self.file.write(json.dumps(row) + "\n")

    def on_end(self, trainer):
        self.file.close()


class Checkpoint(Callback):
    def __init__(self, path, every=1000):
        self.path, self.every = path, every

    def on_interval(self, trainer, step):
        state = {k: v.cpu() for k, v in trainer.model.state_dict().items()}
        torch.save({"step": step, "model": state}, self.path)


class EarlyStop(Callback):
    def __init__(self, loader, patience=5, every=500):
        self.loader, self.patience, self.every = loader, patience, every
        self.best, self.bad = math.inf, 0

    def on_interval(self, trainer, step):
        value = float(trainer.validate(self.loader))
        self.best, self.bad = (value, 0) if value < self.best else (self.best, self.bad + 1)
        trainer.stop = self.bad >= self.patience
