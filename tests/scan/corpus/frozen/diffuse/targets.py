import torch
from diffuse import pipeline, schedulers

SHAPE = (2, 4)


def pair(device):
    return torch.randn(SHAPE, device=device), torch.randn(SHAPE, device=device)


def build_euler_index(device):
    return schedulers.Euler(device).step, pair(device)


def build_euler_index_tensor(device):
    return schedulers.EulerTensor(device).step, pair(device)


def timed(device, scheduler, timestep):
    output, sample = pair(device)
    return scheduler.step, (output, timestep.to(device), sample)


def build_ddim_index(device):
    return timed(device, schedulers.Ddim(device), torch.tensor([4]))


def build_ddim_gather(device):
    return timed(device, schedulers.DdimGather(device), torch.tensor([4]))


def build_annotated_timestep(device):
    return timed(device, schedulers.Ddpm(device), torch.tensor(4))


def build_ancestral_noise(device):
    return schedulers.Ancestral(device).step, pair(device)


def build_ancestral_default(device):
    return schedulers.AncestralDefault(device).step, pair(device)


def build_reseeded_noise(device):
    return schedulers.Reproducible(device).step, pair(device)


def build_multistep(device):
    return schedulers.Multistep(device, SHAPE).step, pair(device)


def build_multistep_buffer(device):
    return schedulers.MultistepBuffer(device, SHAPE).step, pair(device)


def build_dynamic_threshold(device):
    return schedulers.Thresholding(device).step, pair(device)


def build_dynamic_threshold_clamped(device):
    return schedulers.ThresholdingClamped(device).step, pair(device)


def build_churn(device):
    return schedulers.Churn(device).step, pair(device)


def build_timestep_loop(device):
    return pipeline.Pipeline(schedulers.SchedulerMixin(device)), pair(device)[:1]


def build_timestep_range(device):
    return pipeline.HostPipeline(schedulers.SchedulerMixin(device)), pair(device)[:1]


def build_progress(device):
    return pipeline.HostPipeline(None, [pipeline.progress]), pair(device)[:1]


def build_guidance_curve(device):
    return pipeline.Guidance().combine, pair(device)


def build_same_prompts(device):
    return pipeline.FastGuidance().combine, pair(device)


def build_number_to_tensor(device):
    return pipeline.TimeEmbedding().to(device), pair(device)[:1]


def build_deep_turns(device):
    return pipeline.DeepCache(4, device).to(device), pair(device)[:1]
