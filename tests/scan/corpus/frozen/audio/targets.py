import torch
from audiokit import frontend, recognition


def samples(device):
    return torch.randn(24, device=device)


def frames(device):
    return torch.randn(10, 6, device=device)


def build_host_window(device):
    return frontend.Window(), (samples(device),)


def build_registered_window(device):
    return frontend.RegisteredWindow().to(device), (samples(device),)


def build_cached_peak(device):
    return frontend.PeakNormalize(), (frames(device),)


def build_filterbank(device):
    return frontend.Mel(), (frames(device),)


def build_resampling(device):
    return frontend.Resample(), (samples(device),)


def build_time_mask(device):
    return frontend.TimeMask(), (frames(device),)


def build_time_mask_device(device):
    return frontend.TimeMaskDevice(), (frames(device),)


def build_voiced_mean(device):
    return frontend.Pitch(), (torch.tensor([0.0, 2.0, 3.0, 0.0, 1.5], device=device),)


def build_noise_floor(device):
    return frontend.SpectralGate(), (frames(device),)


def build_falling_gain(device):
    return frontend.AutomaticGain(), (samples(device),)


def encoded(device, kind):
    return kind().to(device), (torch.randn(3, 5, 4, device=device), torch.tensor([2, 5, 2], device=device))


def build_pad_mask(device):
    return encoded(device, recognition.Encoder)


def build_pad_mask_static(device):
    return encoded(device, recognition.StaticEncoder)


def chunk(device):
    return torch.randn(4, 3, device=device)


def build_left_context(device):
    return recognition.StreamingConv(4, device).to(device), (chunk(device),)


def build_left_context_copied(device):
    return recognition.StreamingConvCopied(4, device).to(device), (chunk(device),)


def build_frame_position(device):
    return recognition.StreamingPositions(4).to(device), (torch.randn(4, device=device),)


def build_silence(device):
    return recognition.Gate(torch.nn.Linear(3, 3)).to(device), (chunk(device),)


def build_ctc(device):
    targets = torch.tensor([[1, 2, 1], [2, 1, 2]], device=device)
    lengths = torch.tensor([3, 2], device=device)
    return recognition.CtcLoss(), (torch.randn(8, 2, 3, device=device), targets, lengths)


def build_collapsed_words(device):
    return recognition.GreedyText(), (frames(device),)


def build_collapsed_words_flags(device):
    return recognition.GreedyFlags(), (frames(device),)


def build_utterance_frames(device):
    return recognition.FrameMean(), (frames(device), torch.tensor([2, 5, 3], device=device))


def build_beam_scores(device):
    return recognition.BeamSearch().step, (torch.randn(6, device=device),)
