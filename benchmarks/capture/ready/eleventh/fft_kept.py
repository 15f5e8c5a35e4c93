"""A spectrometer plans other lengths between requests; the cache holds them all, and no plan is dropped."""
import torch

import graphsafe


def build(device):
    window = torch.hann_window(1009, device=device)
    other = [torch.randn(4, n).to(device) for n in (997, 1013, 1019, 1021)]

    def spectrum(audio):
        return torch.fft.fft(audio * window, dim=-1).abs()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 1009))
        if k % 25 == 24:
            for o in other:
                torch.fft.fft(o, dim=-1)

    return graphsafe.Step(spectrum, (torch.randn(4, 1009, device=device),), refresh=refresh)
