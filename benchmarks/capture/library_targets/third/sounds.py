"""Steps of auraloss, julius, torch-audiomentations and asteroid-filterbanks on sounds of the device."""

import torch
from torch import nn


def waves(device, batch=2, channels=1, samples=8000):
    return torch.randn(batch, channels, samples, device=device)


def spectral_training(device):
    """A filter of sounds trained by spectra of several resolutions."""
    from auraloss.freq import MultiResolutionSTFTLoss, STFTLoss
    from auraloss.time import SISDRLoss

    model = nn.Conv1d(1, 1, 15, padding=7).to(device)
    several = MultiResolutionSTFTLoss(fft_sizes=[256, 512], hop_sizes=[64, 128], win_lengths=[256, 512]).to(device)
    smooth = STFTLoss(fft_size=512, hop_size=128, win_length=512, w_phs=0.1).to(device)
    time, optimizer = SISDRLoss(), torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(noisy, clean):
        restored = model(noisy)
        loss = several(restored, clean) + smooth(restored, clean) + 0.1 * time(restored, clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (waves(device), waves(device))


def other_sound_losses(device):
    from auraloss.freq import RandomResolutionSTFTLoss, SumAndDifferenceSTFTLoss
    from auraloss.perceptual import FIRFilter
    from auraloss.time import DCLoss, ESRLoss, LogCoshLoss, SNRLoss

    drawn = RandomResolutionSTFTLoss(resolutions=1, min_fft_size=64, max_fft_size=512, windows=["hann_window"])
    stereo = SumAndDifferenceSTFTLoss(fft_sizes=[256], hop_sizes=[64], win_lengths=[256]).to(device)
    weigh = FIRFilter("aw", fs=16000).to(device)
    criteria = [DCLoss(), ESRLoss(), LogCoshLoss(), SNRLoss()]

    def step(one, other):
        heard, reference = weigh(one, other)
        loss = drawn(heard, reference) + stereo(one.expand(-1, 2, -1), other.expand(-1, 2, -1))
        return loss + sum(criterion(heard, reference) for criterion in criteria)

    return step, (waves(device), waves(device))


def filtered(device):
    """Bands and rates of sounds."""
    import julius

    resample = julius.ResampleFrac(16000, 8000).to(device)
    low, bands = julius.LowPassFilter(0.1).to(device), julius.SplitBands(16000, n_bands=4).to(device)

    @torch.no_grad()
    def step(x):
        short = resample(x)
        return low(short), bands(x), julius.fft_conv1d(x, torch.ones(1, 1, 64, device=x.device) / 64)

    return step, (waves(device),)


def augmented(device):
    """Random changes of sounds while a model trains."""
    import torch_audiomentations as augment

    change = augment.Compose(
        [
            augment.Gain(min_gain_in_db=-15.0, max_gain_in_db=5.0, p=0.9, output_type="tensor"),
            augment.PolarityInversion(p=0.5, output_type="tensor"),
            augment.AddColoredNoise(p=0.9, output_type="tensor"),
            augment.LowPassFilter(p=0.9, output_type="tensor"),
            augment.HighPassFilter(p=0.9, output_type="tensor"),
            augment.PeakNormalization(p=0.5, output_type="tensor"),
            augment.Shift(p=0.9, output_type="tensor"),
            augment.TimeInversion(p=0.5, output_type="tensor"),
        ],
        output_type="tensor",
    ).to(device)
    change.train()

    @torch.no_grad()
    def step(x):
        return change(x, sample_rate=16000)

    return step, (waves(device, batch=4),)


def pitched(device):
    import torch_audiomentations as augment

    change = augment.PitchShift(p=1.0, sample_rate=16000, output_type="tensor").to(device).train()
    swap = augment.ShuffleChannels(p=1.0, output_type="tensor").to(device).train()

    @torch.no_grad()
    def step(x):
        return swap(change(x, sample_rate=16000), sample_rate=16000)

    return step, (waves(device, channels=2),)


def separated(device):
    """A mask over learnt filters, trained."""
    from asteroid_filterbanks import STFTFB, Decoder, Encoder, FreeFB, ParamSincFB
    from asteroid_filterbanks.transforms import angle, apply_mag_mask, mag

    encode, decode = Encoder(FreeFB(64, 32, stride=16)).to(device), Decoder(FreeFB(64, 32, stride=16)).to(device)
    spectrum, sinc = Encoder(STFTFB(64, 64, stride=32)).to(device), Encoder(ParamSincFB(32, 33, stride=16)).to(device)
    mask = nn.Conv1d(64, 64, 1).to(device)

    def step(x):
        learnt = encode(x)
        restored = decode(learnt * mask(learnt).sigmoid())
        phases = spectrum(x)
        loss = restored.square().mean() + mag(apply_mag_mask(phases, mag(phases).sigmoid())).mean()
        loss = loss + angle(phases).mean() + sinc(x).square().mean()
        loss.backward()
        return loss.detach()

    return step, (waves(device),)
