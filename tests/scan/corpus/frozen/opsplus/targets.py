import torch
from opsplus import custom, functions, streams


def square(device):
    return torch.randn(4, 4, device=device)


def keep(device):
    return torch.tensor([True, False, True, True], device=device)


def build_trimmed_sum(device):
    return functions.trimmed, (square(device), torch.tensor([2, 4, 1, 1], device=device))


def build_guarded_backward(device):
    return functions.guarded, (square(device),)


def build_straight_through(device):
    return functions.rounded, (square(device),)


def build_compacted_mean(device):
    return custom.compacted_mean, (square(device), keep(device))


def build_masked_mean_op(device):
    return custom.masked_mean, (square(device), keep(device))


def build_scaled_by_peak(device):
    def run(x):
        y = x.clone()
        custom.scale_by_peak(y)
        return y

    return run, (square(device),)


def build_decoded_levels(device):
    codes = torch.tensor([[0, 3, 1], [2, 2, 1]], device=device)
    return lambda codes: torch.ops.opsplus_codes.decode(codes), (codes,)


def build_single_dispatch(device):
    return custom.mean_of_parts, (torch.rand(2, 4, device=device) + 1,)


def build_kernel_table(device):
    return custom.pick, (square(device), 0.7)


def build_kept_plan(device):
    return custom.weigh_planned, (square(device), torch.tensor([2, 5, 5, 3], device=device))


def build_module_workspace(device):
    return custom.softmax_in_workspace, (square(device),)


def build_usual_level(device):
    return custom.above_floor, (square(device),)


def build_remembered_result(device):
    return custom.spectrum, (square(device),)


def build_tuned_variants(device):
    return streams.Tuned(streams.doubled, streams.added).run, (square(device),)


def build_unjoined_side(device):
    return streams.Forgotten(device).run, (square(device),)


def build_joined_side(device):
    return streams.Joined(device).run, (square(device),)


def build_stream_wait(device):
    return streams.Waiting(device).run, (square(device),)


def build_polled_event(device):
    return streams.Polling(device).run, (square(device),)


def build_event_order(device):
    return streams.Ordered(device).run, (square(device),)


def build_timed_block(device):
    return streams.Timed().run, (square(device),)


def build_default_stream(device):
    return streams.legacy, (square(device),)
