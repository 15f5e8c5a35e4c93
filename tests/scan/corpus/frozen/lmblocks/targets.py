import torch
from lmblocks import caches, experts, heads, rotary

DIM = 8


def rows(device, n=4):
    return torch.randn(n, DIM, device=device)


def positions(device):
    return torch.tensor([3, 0, 6, 2], device=device)


def build_dynamic_rope(device):
    return rotary.DynamicRotary(DIM).to(device), (rows(device), positions(device))


def build_counting_rope(device):
    return rotary.CountingRotary(DIM).to(device), (rows(device),)


def build_static_rope(device):
    return rotary.StaticRotary(DIM).to(device), (rows(device), positions(device))


def build_rope_by_length(device):
    return rotary.ShapeCachedRotary(DIM).to(device), (rows(device),)


def build_first_spread(device):
    return rotary.LogitScale(DIM).to(device), (rows(device),)


def build_concatenated_keys(device):
    return caches.ConcatenatingAttention(DIM, caches.DynamicLayerCache()).to(device), (rows(device, 1),)


def build_cache_cursor(device):
    return caches.CachedAttention(DIM, caches.StaticLayerCache(32, DIM, device)).to(device), (rows(device, 1),)


def build_cache_cursor_tensor(device):
    return caches.CachedAttention(DIM, caches.CursorLayerCache(256, DIM, device)).to(device), (rows(device, 1),)


def build_sliding_keys(device):
    return caches.SlidingWindow(5, DIM, device).to(device), (rows(device, 1),)


def build_sliding_keys_rolled(device):
    return caches.RollingWindow(5, DIM, device).to(device), (rows(device, 1),)


def build_cross_keys(device):
    return caches.CrossAttention(DIM).to(device).requires_grad_(False), (rows(device), rows(device, 6))


def build_cross_keys_fresh(device):
    return caches.FreshCrossAttention(DIM).to(device), (rows(device), rows(device, 6))


def build_first_bias(device):
    return caches.LengthBias(), (rows(device),)


def build_partial_prefix(device):
    return caches.PartialPrefix(32, DIM, device), (rows(device, 32),)


def build_expert_rows(device):
    return experts.LoopMixture(DIM).to(device), (rows(device),)


def build_expert_blend(device):
    return experts.DenseMixture(DIM).to(device), (rows(device),)


def build_expert_parts(device):
    return experts.SortedMixture(DIM).to(device), (rows(device),)


def build_expert_capacity(device):
    return experts.CapacityMixture(DIM).to(device), (rows(device),)


def build_balance_weight(device):
    return experts.BalancedMixture(DIM).to(device), (rows(device),)


def build_router_jitter(device):
    return experts.NoisyMixture(DIM).to(device), (rows(device),)


def build_host_positions(device):
    return heads.Positions(DIM).to(device), (rows(device),)


def build_device_positions(device):
    return heads.DevicePositions(DIM).to(device), (rows(device),)


def labels(device):
    return torch.tensor([3, 5, 5, 9, 2, 7], device=device)


def build_start_token(device):
    return heads.ShiftRight(12, DIM).to(device), (labels(device),)


def build_start_token_filled(device):
    return heads.ShiftRightFilled(12, DIM).to(device), (labels(device),)


def build_scale_tensor(device):
    return heads.Temperature(DIM), (rows(device),)


def build_scale_number(device):
    return heads.TemperatureNumber(DIM), (rows(device),)


def build_segment_ids(device):
    return heads.SegmentIds(DIM).to(device), (rows(device),)


def build_visible_keys(device):
    return heads.VisibleKeys(), (rows(device), torch.tensor([2, 5, 3, 3], device=device))


def build_unpadded_rows(device):
    return heads.Unpad(DIM).to(device), (rows(device), torch.tensor([1, 0, 1, 1], device=device))


def build_capture_estimate(device):
    return heads.FusedNorm(), (rows(device),)


def build_early_exit(device):
    return heads.EarlyExit(DIM).to(device), (rows(device),)


def build_fixed_depth(device):
    return heads.FixedDepth(DIM).to(device), (rows(device),)


def build_norm_report(device):
    return heads.Reporting(DIM).to(device), (rows(device),)


def build_layer_drop(device):
    return heads.LayerDrop(DIM).to(device), (rows(device),)


def build_packed_lengths(device):
    return heads.PackedEncoder(DIM).to(device), (
        torch.randn(3, 5, DIM, device=device),
        torch.tensor([2, 5, 2], device=device),
    )


def build_peak_lambda(device):
    return heads.QuantizedActivation(), (rows(device),)


def build_adaptive_head(device):
    return heads.AdaptiveHead(DIM).to(device), (rows(device, 6), labels(device))
