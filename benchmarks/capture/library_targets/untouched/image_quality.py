"""Measures of image quality by piq, as a validation loop calls them."""

import torch


def images(device, size=96, batch=2, channels=3):
    shape = (batch, channels, size, size)
    return torch.rand(shape, device=device), torch.rand(shape, device=device)


def measured(name, size=96, **options):
    def build(device):
        import piq

        function = getattr(piq, name)

        @torch.no_grad()
        def step(one, other):
            return function(one, other, data_range=1.0, **options)

        return step, images(device, size)

    return build


peak_signal_to_noise = measured("psnr")
structural_similarity = measured("ssim")
several_scales = measured("multi_scale_ssim", size=192)
information_fidelity = measured("vif_p")
phase_congruency = measured("fsim")
gradient_similarity = measured("multi_scale_gmsd")
wavelet_similarity = measured("haarpsi")
visual_saliency = measured("vsi")
mean_deviation = measured("mdsi")


def restoration_training(device):
    """A network that is trained by a measure and a penalty on variation."""
    from piq import SSIMLoss, TVLoss

    network = torch.nn.Conv2d(3, 3, 3, padding=1).to(device)
    similarity, variation = SSIMLoss(data_range=1.0), TVLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step(noisy, clean):
        optimizer.zero_grad()
        restored = network(noisy).sigmoid()
        loss = similarity(restored, clean) + 1e-4 * variation(restored)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, images(device, 48)


def distance_of_features(device):
    from piq import FID, KID

    frechet, kernel = FID(), KID(subset_size=16)

    @torch.no_grad()
    def step(one, other):
        return frechet.compute_metric(one, other), kernel.compute_metric(one, other)

    return step, (torch.rand(32, 8, device=device), torch.rand(32, 8, device=device))
