"""The same loops at the sizes of real programs: thousands of batches an epoch, thousands of steps between actions."""
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import graphsafe
from epochs import IN, OUT, N, Endless, Trainer, data, write
from after import Melt


class LastShort(Trainer):
    def counted(self, x, y):
        n = self.rows
        return self.step(x[:n], y[:n])


def build_far_short_loader(device):
    """5,001 batches an epoch; the last one has three rows."""
    t = LastShort(device)
    endless = Endless(DataLoader(TensorDataset(*data(5000 * N + 3)), batch_size=N))

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.counted, t.inputs(), refresh=refresh)


def build_far_multistep(device):
    """100 batches an epoch; the rate drops after 30 epochs."""
    t = Trainer(device)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(t.optimizer, [30, 60])
    endless = Endless(DataLoader(TensorDataset(*data(800)), batch_size=N), scheduler.step)

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


def build_far_unfreeze(device):
    """200 batches an epoch; the first layer learns from the tenth epoch on."""
    t = Trainer(device)
    t.model[0].requires_grad_(False)

    def next_epoch():
        t.epoch += 1
        if t.epoch == 10:
            t.model[0].requires_grad_(True)

    endless = Endless(DataLoader(TensorDataset(*data(1600)), batch_size=N, shuffle=True), next_epoch)

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)


class FarMelt(Melt):
    def host(self):
        self.move()
        self.n += 1
        if self.n % 5000 == 0:
            self.v.mul_((0.05 / (self.v**2).mean()).sqrt())
        return self.x.clone(), self.v.clone()


def build_far_melt(device):
    m = FarMelt(device)
    return graphsafe.Step(
        m.host, (), refresh=lambda args, kwargs, k: m.field.copy_(torch.randn(2)), reset=m.restart
    )


def build_far_drop_last(device):
    t = Trainer(device)
    endless = Endless(DataLoader(TensorDataset(*data(5000 * N + 3)), batch_size=N, drop_last=True))

    def refresh(args, kwargs, k):
        write(t, args, *endless.next())

    return graphsafe.Step(t.step, t.inputs(), refresh=refresh)
