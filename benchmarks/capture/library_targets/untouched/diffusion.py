"""Steps of diffusers: one turn of a denoising loop under many schedulers, their training, and small models."""

import torch
import torch.nn.functional as F
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 4, 3, padding=1))
        self.level = nn.Linear(1, 4)

    def forward(self, x, t):
        level = self.level(t.float().reshape(-1, 1) / 1000)
        return self.net(x) + level[:, :, None, None]


def scheduled(kind, **options):
    """One turn of `for t in scheduler.timesteps`; the watched turn is the third."""

    def build(device):
        import diffusers

        model = Denoiser().to(device)
        scheduler = getattr(diffusers, kind)(**options)
        scheduler.set_timesteps(20, device=device)
        times = iter(scheduler.timesteps)

        @torch.no_grad()
        def step(x):
            t = next(times)
            if hasattr(scheduler, "scale_model_input"):
                noise = model(scheduler.scale_model_input(x, t), t)
            else:
                noise = model(x, t)
            return scheduler.step(noise, t, x).prev_sample

        return step, (torch.randn(2, 4, 8, 8, device=device),)

    return build


ddim_turn = scheduled("DDIMScheduler")
ddpm_turn = scheduled("DDPMScheduler")
euler_turn = scheduled("EulerDiscreteScheduler")
euler_ancestral_turn = scheduled("EulerAncestralDiscreteScheduler")
solver_turn = scheduled("DPMSolverMultistepScheduler")
predictor_corrector_turn = scheduled("UniPCMultistepScheduler")
pseudo_numerical_turn = scheduled("PNDMScheduler", skip_prk_steps=True)
flow_matching_turn = scheduled("FlowMatchEulerDiscreteScheduler", shift=3.0)


def noise_prediction_training(device):
    """The training loop of an unconditional image model, with a moving average of its weights."""
    from diffusers import DDPMScheduler, UNet2DModel
    from diffusers.training_utils import EMAModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
    ).to(device)
    average = EMAModel(model.parameters(), use_ema_warmup=True)
    average.to(device)
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(images):
        noise = torch.randn_like(images)
        times = torch.randint(0, 1000, (images.shape[0],), device=images.device)
        predicted = model(scheduler.add_noise(images, noise, times), times).sample
        loss = F.mse_loss(predicted, noise)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average.step(model.parameters())
        return loss.detach()

    return step, (torch.randn(2, 3, 16, 16, device=device),)


def guided_unet(device):
    """A conditional model with classifier-free guidance, as text-to-image pipelines run it."""
    from diffusers import DDIMScheduler, UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    model = model.to(device).eval()
    scheduler = DDIMScheduler()
    scheduler.set_timesteps(20, device=device)

    @torch.no_grad()
    def step(latents, t, text):
        noise = model(torch.cat([latents] * 2), t, encoder_hidden_states=text).sample
        without, along = noise.chunk(2)
        return scheduler.step(without + 7.5 * (along - without), t, latents, eta=0.5).prev_sample

    latents, text = torch.randn(1, 4, 8, 8, device=device), torch.randn(2, 6, 16, device=device)
    return step, (latents, scheduler.timesteps[4], text)


def latent_decoding(device):
    from diffusers import AutoencoderKL
    from diffusers.image_processor import VaeImageProcessor

    model = AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
        sample_size=16,
    )
    model, processor = model.to(device).eval(), VaeImageProcessor()

    @torch.no_grad()
    def step(latents):
        return processor.postprocess(model.decode(latents / 0.18215).sample, output_type="pt")

    return step, (torch.randn(1, 4, 8, 8, device=device),)
