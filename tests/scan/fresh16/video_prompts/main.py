"""Makes clips for some jobs, some of which name things to avoid."""

from pathlib import Path

import torch
from pipeline import Job, Pipeline


def jobs(count, device):
    for number in range(count):
        prompt = torch.randint(0, 100, (6,), device=device)
        avoid = torch.randint(0, 100, (4,), device=device) if number % 3 == 0 else None
        yield Job(prompt, avoid, guidance=3.0 + 0.5 * (number % 4))


@torch.inference_mode()
def main():
    torch.manual_seed(10)
    device = torch.device("cuda")
    pipeline = Pipeline(device)
    with Path("clips.bin").open("wb") as file:
        for clip in pipeline.serve(jobs(9, device)):
            file.write(clip)


if __name__ == "__main__":
    main()
