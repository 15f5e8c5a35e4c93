import torch
from quantkit import linear, observers
from torch import nn


def rows(device):
    return torch.randn(3, 4, device=device)


def plain(device, kind):
    return kind().to(device), (rows(device),)


def build_min_max(device):
    return observers.MinMax(device), (rows(device),)


def build_min_max_inplace(device):
    return observers.MinMaxInPlace(device), (rows(device),)


def build_enabled_flag(device):
    return plain(device, observers.FakeQuantize)


def build_enabled_number(device):
    return plain(device, observers.FakeQuantizeSwitch)


def build_lazy_scale(device):
    return plain(device, observers.LazyScale)


def build_peak_history(device):
    return observers.Statistics(device), (rows(device),)


def wrapped(device, change):
    return observers.Wrapped(change(nn.Linear(4, 4).to(device))), (rows(device),)


def build_peak_hook(device):
    return wrapped(device, lambda layer: observers.hooked(layer, observers.record_peak))


def build_peak_hook_tensor(device):
    return wrapped(device, lambda layer: observers.hooked(layer, observers.divide_by_peak))


def build_counting_hook(device):
    return wrapped(device, lambda layer: observers.hooked(layer, observers.counted(3)))


def build_offloaded(device):
    layer = nn.Linear(4, 4).to(device).requires_grad_(False)
    observers.Offload(layer, device)
    return observers.Wrapped(layer), (rows(device),)


def build_replaced_forward(device):
    return wrapped(device, observers.guard)


def build_level_table(device):
    return plain(device, linear.Packed)


def build_level_table_buffer(device):
    return plain(device, linear.PackedTable)


def build_activation_order(device):
    return plain(device, linear.Reordered)


def build_activation_order_buffer(device):
    return plain(device, linear.ReorderedBuffer)


def build_outlier_columns(device):
    return plain(device, linear.Outliers)


def adapted(device, kind):
    return kind().to(device), (rows(device), torch.tensor([2, 0, 2], device=device))


def build_adapter_number(device):
    return adapted(device, linear.Adapters)


def build_adapter_gather(device):
    return adapted(device, linear.GatheredAdapters)


def build_zero_point(device):
    return plain(device, linear.ZeroPoint)
