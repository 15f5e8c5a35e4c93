import torch

from .scheduler import EulerScheduler
from .unet import MiniUNet


class DenoisePipeline:
    def __init__(self, unet, scheduler, guidance=5.0):
        self.unet = unet
        self.scheduler = scheduler
        self.guidance = guidance
        self.calls = 0

    @torch.no_grad()
    def denoise(self, latents, timestep):
        i = self.scheduler.index_for(timestep)
        doubled = torch.cat([latents, latents])
        doubled = self.scheduler.scale_model_input(doubled, i)
        uncond, cond = self.unet(doubled, timestep).chunk(2)
        # guidance is ramped up over the first calls
        ramp = min(1.0, self.calls / 10)
        self.calls += 1
        eps = uncond + self.guidance * ramp * (cond - uncond)
        return self.scheduler.step(eps, i, latents)


def build(device):
    torch.manual_seed(0)
    scheduler = EulerScheduler()
    scheduler.set_timesteps(20, device)
    pipe = DenoisePipeline(MiniUNet().to(device).eval(), scheduler)
    latents = torch.randn(2, 4, 16, 16, device=device)
    return pipe.denoise, (latents, scheduler.timesteps[3].clone())
