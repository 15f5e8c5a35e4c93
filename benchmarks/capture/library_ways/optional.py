"""Steps with other options than in library_targets/. They reach lines that the steps there ran without waiting."""

import torch
from torch import nn


def riaa_filter(device):
    """Filter coefficients that are Python numbers."""
    from torchaudio.functional import riaa_biquad

    return (lambda samples: riaa_biquad(samples, 44100)), (torch.randn(2, 400, device=device),)


def masked_by_mean(device):
    """The mask value is a tensor: the spectrogram's mean."""
    from torchaudio.transforms import SpecAugment

    return SpecAugment(1, 10, 1, 6, iid_masks=False).to(device), (torch.randn(2, 20, 50, device=device),)


def masked_by_tensor(device):
    """The caller gives the mask value as a tensor."""
    from torchaudio.transforms import FrequencyMasking

    masking = FrequencyMasking(6).to(device)
    return masking, (torch.randn(2, 20, 50, device=device), torch.zeros((), device=device))


def prediction_at_as_many_points(device):
    """The model gets as many points as it was trained on, and compares them with the training points."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.rand(20, 2, device=device)
    model = Model(x, x.sum(1).sin(), gpytorch.likelihoods.GaussianLikelihood()).to(device).eval()

    @torch.no_grad()
    def step(new):
        return model(new).mean

    return step, (torch.rand(20, 2, device=device),)


def prescribed_times(device):
    """A solver that must step to given times, and restart at a given discontinuity."""
    from torchdiffeq import odeint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, t, y):
            return self.linear(y)

    field, times = Field().to(device), torch.linspace(0, 1, 5, device=device)
    options = {
        "step_t": torch.tensor([0.3, 0.6], device=device),
        "jump_t": torch.tensor([0.4], device=device),
    }

    @torch.no_grad()
    def step(start):
        return odeint(field, start, times, method="dopri5", rtol=1e-3, atol=1e-4, options=options)[-1]

    return step, (torch.randn(8, 4, device=device),)
