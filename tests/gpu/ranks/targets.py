"""Steps of two ranks, each with one known cause of trouble between them, and sound twins."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

WIDTH = 16


def rows(device, batch=4):
    torch.manual_seed(1)
    return torch.randn(batch, WIDTH, device=device)


class Sharded(nn.Module):
    """An MLP whose inner width is split over the ranks; every rank holds a part of each sum."""

    def __init__(self):
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        up, down = torch.randn(4 * WIDTH, WIDTH) / 4, torch.randn(WIDTH, 4 * WIDTH) / 4
        self.up = nn.Parameter(up.chunk(size, 0)[rank].clone())
        self.down = nn.Parameter(down.chunk(size, 1)[rank].clone())

    def partial(self, x):
        return F.linear(F.gelu(F.linear(x, self.up)), self.down)

    def forward(self, x):
        y = self.partial(x)
        dist.all_reduce(y)
        return x + y


def made(kind, device):
    return kind().to(device), (rows(device),)


# Not issued by every rank.


class ExtraOnRankZero(Sharded):
    def forward(self, x):
        y = super().forward(x)
        if dist.get_rank() == 0:
            dist.all_reduce(y.amax())
        return y


def extra_on_rank_zero(device):
    return made(ExtraOnRankZero, device)


class MoreLayersOnRankOne(Sharded):
    def forward(self, x):
        for _ in range(1 + dist.get_rank()):
            x = super().forward(x)
        return x


def more_layers_on_rank_one(device):
    return made(MoreLayersOnRankOne, device)


# The host waits in the step.


class GathersObjects(Sharded):
    def forward(self, x):
        sizes = [None] * dist.get_world_size()
        dist.all_gather_object(sizes, x.shape[0])
        return super().forward(x) * sum(sizes)


def gathers_objects(device):
    return made(GathersObjects, device)


class Barrier(Sharded):
    def forward(self, x):
        dist.barrier()
        return super().forward(x)


def barrier(device):
    return made(Barrier, device)


class Polls(Sharded):
    def forward(self, x):
        y = self.partial(x)
        work = dist.all_reduce(y, async_op=True)
        while not work.is_completed():
            pass
        work.wait()
        return x + y


def polls(device):
    return made(Polls, device)


class ReadsOnRankOne(Sharded):
    def forward(self, x):
        y = super().forward(x)
        return y * 2 if dist.get_rank() == 1 and y.sum().item() > 1e9 else y


def reads_on_rank_one(device):
    return made(ReadsOnRankOne, device)


# On another stream.


class NeverWaited(Sharded):
    def forward(self, x):
        y = self.partial(x)
        dist.all_reduce(y.clone(), async_op=True)
        return x + y


def never_waited(device):
    return made(NeverWaited, device)


class OnOldStream(Sharded):
    """Communicates on the stream that was current when it was made."""

    def __init__(self):
        super().__init__()
        self.stream = torch.cuda.current_stream()

    def forward(self, x):
        y = self.partial(x)
        with torch.cuda.stream(self.stream):
            dist.all_reduce(y)
        return x + y


def on_old_stream(device):
    return made(OnOldStream, device)


# State.


class CountsOnRankOne(Sharded):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        if dist.get_rank() == 1:
            self.steps += 1
        return super().forward(x * (1 + self.steps))


def counts_on_rank_one(device):
    return made(CountsOnRankOne, device)


class GatheredOnce(Sharded):
    """Keeps what the ranks said in the first step."""

    def __init__(self):
        super().__init__()
        self.limits = None

    def forward(self, x):
        if self.limits is None:
            self.limits = x.amax(0)
            dist.all_reduce(self.limits, op=dist.ReduceOp.MAX)
        return super().forward(x) / (1 + self.limits.abs())


def gathered_once(device):
    return made(GatheredOnce, device)


# Sound.


def sharded(device):
    return made(Sharded, device)


class Asynchronous(Sharded):
    def forward(self, x):
        y = self.partial(x)
        work = dist.all_reduce(y, async_op=True)
        z = torch.tanh(x)
        work.wait()
        return z + y


def asynchronous(device):
    return made(Asynchronous, device)


class JoinedStream(Sharded):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        y = self.partial(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            dist.all_reduce(y)
        z = torch.tanh(x)
        torch.cuda.current_stream().wait_stream(self.side)
        return z + y


def joined_stream(device):
    return made(JoinedStream, device)


class Sequence(Sharded):
    """Activations split over the ranks between the layers, as in sequence parallelism."""

    def forward(self, x):
        y = self.partial(x)
        own = torch.empty(y.shape[0] // dist.get_world_size(), WIDTH, device=y.device)
        dist.reduce_scatter_tensor(own, y)
        whole = torch.empty_like(y)
        dist.all_gather_into_tensor(whole, torch.tanh(own))
        return x + whole


def sequence(device):
    return made(Sequence, device)


class RootSpeaks(Sharded):
    """One collective, issued from a line for the root and another for the rest."""

    def __init__(self):
        super().__init__()
        self.register_buffer("heard", torch.zeros(WIDTH))

    def forward(self, x):
        y = super().forward(x)
        if dist.get_rank() == 0:
            self.heard.copy_(y.mean(0))
            dist.broadcast(self.heard, 0)
        else:
            dist.broadcast(self.heard, 0)
        return y - self.heard


def root_speaks(device):
    return made(RootSpeaks, device)


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def split_linears(device):
    """Made by torch.distributed.tensor, whose collectives are functional ones."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)).to(device)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def tensor_parallel(device):
    return Residual(split_linears(device)), (rows(device),)


def fully_sharded(device):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    model = fully_shard(model, mesh=mesh)
    model.requires_grad_(False)
    return model, (rows(device),)
