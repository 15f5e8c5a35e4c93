import torch

from denoiser import EulerStepper, TinyUNet
from schedule import KarrasSchedule


class PreviewHook:
    def __init__(self, every: int):
        self.every = every
        self.frames = []

    def __call__(self, index: int, clean: torch.Tensor):
        if index % self.every == 0:
            self.frames.append(clean)


def generate(stepper: EulerStepper, noise: torch.Tensor, hook: PreviewHook):
    stepper.latent.copy_(noise)
    for i in range(len(stepper.schedule)):
        hook(i, stepper.step(i))
    return stepper.latent.clone()


def main(device="cuda"):
    torch.manual_seed(2)
    device = torch.device(device)
    schedule = KarrasSchedule(steps=6)
    shape = (2, 3, 16, 16)
    stepper = EulerStepper(TinyUNet().to(device), schedule, shape, device)
    stepper.compile()
    hook = PreviewHook(every=2)
    image = generate(stepper, torch.randn(shape, device=device) * schedule.sigmas[0], hook)
    return {"image": image, "previews": torch.stack(hook.frames)}


if __name__ == "__main__":
    result = main()
    print(result["image"].std().item(), result["previews"].flatten(1).std(1).cpu())
