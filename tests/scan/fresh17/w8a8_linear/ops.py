"""Reference kernels for int8 weights and activations."""
import torch


def split_columns(x, threshold):
    """Columns that stay in floating point, as in LLM.int8()."""
    peaks = x.abs().amax(dim=0)
    return torch.nonzero(peaks > threshold).flatten()


def pack_rows(w):
    scale = w.abs().amax(dim=1, keepdim=True).clamp_min(1e-8) / 127.0
    return torch.round(w / scale).to(torch.int8), scale


def per_tensor(x):
    scale = (x.abs().amax() / 127.0).item()
    scale = max(scale, 1e-8)
    return torch.clamp(torch.round(x / scale), -127, 127), scale


def scaled_mm(xq, xs, wq, ws):
    return (xq @ wq.to(xq.dtype).t()) * (xs * ws.t())
