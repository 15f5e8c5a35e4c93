import torch
from specdecode import accept, draft, engine


def drafted(device):
    return torch.tensor([3, 5, 5, 9], device=device), torch.tensor([3, 5, 9, 5], device=device)


def grid(device):
    return torch.randn(3, 3, device=device)


def build_accepted_prefix(device):
    return accept.accepted_prefix, drafted(device)


def build_accepted_mask(device):
    return accept.accepted_mask, drafted(device)


def build_first_rejected(device):
    return accept.accepted_until, drafted(device)


def build_host_uniform(device):
    return accept.Rejection().verify, (torch.rand(6, device=device), torch.rand(6, device=device))


def build_device_uniform(device):
    return accept.DeviceRejection().verify, (torch.rand(6, device=device), torch.rand(6, device=device))


def build_lookup_tokens(device):
    return accept.Lookup().propose, drafted(device)[:1]


def build_banned_columns(device):
    return accept.process, (grid(device), torch.tensor([True, False, True], device=device))


def build_tree_mask(device):
    return draft.TreeDrafter().propose, (grid(device),)


def build_tree_mask_once(device):
    return draft.StaticTreeDrafter(device).propose, (grid(device),)


def build_rolled_back(device):
    return draft.Rollback(3, device).push, (grid(device)[0],)


def build_draft_length(device):
    return draft.AdaptiveLength().propose, (grid(device),)


def build_best_head(device):
    return draft.Heads(3).to(device), (grid(device),)


def build_prefix_key(device):
    return draft.PrefixCache(3).to(device), drafted(device)[:1]


def build_past_positions(device):
    return draft.Positions(3).to(device), (grid(device),)


def build_last_hidden(device):
    return draft.LastHidden(3, device).to(device), (grid(device)[:2],)


def build_last_hidden_kept(device):
    return draft.LastHiddenKept(3, device).to(device), (grid(device)[:2],)


def build_draft_stream(device):
    return engine.TwoStreams(device).decode_step, (grid(device),)


def build_profiled_step(device):
    return engine.Profiled(device).decode_step, (grid(device),)
