import torch

from config import Job, ModelConfig
from dit import TextEncoder, VideoDiT
from sampler import ClipGraph, StepPlan


class Generator:
    def __init__(self, cfg, device):
        torch.manual_seed(1)
        self.cfg, self.device = cfg, device
        self.model = VideoDiT(cfg).to(device).eval()
        self.encode = TextEncoder(cfg, device)
        self.plan = StepPlan(cfg.steps)
        self.gen = torch.Generator(device)
        self.guidance = 1.0
        self.stream = torch.cuda.Stream(device)
        self.clips = {}

    def _clip(self, frames, size):
        key = (frames, size)
        if key not in self.clips:
            clip = ClipGraph(self, frames, size)
            clip.capture(self.stream)
            self.clips[key] = clip
        return self.clips[key]

    def __call__(self, job):
        self.guidance = job.guidance
        clip = self._clip(job.frames, job.size)
        self.gen = torch.Generator(self.device).manual_seed(job.seed)
        clip.latent.normal_(generator=self.gen)
        clip.set_prompt(self.encode(job.prompt))
        for now, nxt in self.plan.pairs():
            clip.advance(now, nxt)
        return clip.latent.clone().unflatten(1, (job.frames, job.size, job.size))


JOBS = [
    Job("a red fox runs over fresh snow at dawn", 3, 4, 5.0, 1),
    Job("calm sea", 3, 4, 5.0, 1),
    Job("calm sea", 3, 4, 2.0, 1),
    Job("city lights seen from a train", 2, 4, 3.5, 8),
    Job("calm sea", 3, 4, 5.0, 1),
]


@torch.inference_mode()
def main():
    generator = Generator(ModelConfig(), torch.device("cuda"))
    for job in JOBS:
        video = generator(job)
        print(job.prompt, tuple(video.shape), round(video.std().item(), 4))


if __name__ == "__main__":
    main()
