"""Steps of nnAudio and fast_bss_eval: spectrograms with trainable kernels, separation metrics and losses."""

import torch
from torch import nn


def analysed(name, train=False, **options):
    def build(device):
        from nnAudio import features

        layer = getattr(features, name)(**options).to(device)

        def step(x):
            out = layer(x)
            if train:
                out.square().mean().backward()
            return out.detach()

        return step, (torch.randn(2, 8000, device=device),)

    return build


short_fourier = analysed("STFT", n_fft=256, hop_length=64, sr=8000, output_format="Magnitude", verbose=False)
trained_fourier = analysed(
    "STFT",
    train=True,
    n_fft=256,
    hop_length=64,
    freq_scale="log",
    fmin=50,
    fmax=3000,
    sr=8000,
    trainable=True,
    verbose=False,
)
mel_bands = analysed(
    "MelSpectrogram",
    train=True,
    sr=8000,
    n_fft=256,
    hop_length=64,
    n_mels=20,
    trainable_mel=True,
    trainable_STFT=True,
    verbose=False,
)
cepstra = analysed("MFCC", sr=8000, n_mfcc=12, n_fft=256, hop_length=64, n_mels=20, verbose=False)
constant_q = analysed("CQT1992v2", sr=8000, hop_length=128, fmin=220, n_bins=24, verbose=False)
constant_q_octaves = analysed(
    "CQT2010v2", sr=8000, hop_length=128, fmin=220, n_bins=24, output_format="Complex", verbose=False
)
variable_q = analysed("VQT", sr=8000, hop_length=128, fmin=220, n_bins=24, gamma=5, verbose=False)
gammatones = analysed("Gammatonegram", sr=8000, n_fft=256, hop_length=64, n_bins=16, verbose=False)


def inverted_fourier(device):
    from nnAudio import features

    forward = features.STFT(n_fft=256, hop_length=64, iSTFT=True, output_format="Complex", verbose=False).to(device)
    back = features.iSTFT(n_fft=256, hop_length=64, verbose=False).to(device)

    def step(x):
        spectrum = forward(x)
        return forward.inverse(spectrum, onesided=True, length=x.shape[-1]), back(
            spectrum, onesided=True, length=x.shape[-1]
        )

    return step, (torch.randn(2, 4096, device=device),)


def separation_training(name, **options):
    def build(device):
        import fast_bss_eval

        model = nn.Conv1d(2, 2, 5, padding=2).to(device)
        loss_of = getattr(fast_bss_eval, name)

        def step(mixed, sources):
            loss = loss_of(model(mixed), sources, **options)
            loss.mean().backward()
            return loss.detach()

        return step, (torch.randn(2, 2, 2000, device=device), torch.randn(2, 2, 2000, device=device))

    return build


distortion_training = separation_training("sdr_loss", filter_length=32, clamp_db=30)
iterated_distortion_training = separation_training("sdr_loss", filter_length=32, use_cg_iter=5, load_diag=1e-5)
permuted_distortion_training = separation_training("sdr_pit_loss", filter_length=32, zero_mean=True)
scale_invariant_training = separation_training("si_sdr_loss", zero_mean=True, clamp_db=20)
permuted_invariant_training = separation_training("si_sdr_pit_loss")


def separation_metrics(device):
    import fast_bss_eval

    def step(reference, estimate):
        first = fast_bss_eval.bss_eval_sources(reference, estimate, filter_length=32)
        return (
            first,
            fast_bss_eval.si_bss_eval_sources(reference, estimate),
            fast_bss_eval.sdr(reference, estimate, filter_length=32, return_perm=True),
        )

    return step, (torch.randn(2, 2, 2000, device=device), torch.randn(2, 2, 2000, device=device))
