"""Reads scenes, restyles their frames and writes the video."""

import torch
from stylizer import CHANNELS, SIZE, Stylizer


def scenes():
    for style in ("plain", "ink", "oil"):
        base = torch.rand(1, 3, SIZE, SIZE, device="cuda")
        yield style, (base + 0.05 * n * torch.rand_like(base) for n in range(6))


def restyled(stylizer):
    for style, frames in scenes():
        stylizer.new_scene(style)
        for frame in frames:
            yield stylizer(frame)


@torch.inference_mode()
def main():
    torch.manual_seed(14)
    styles = {name: torch.randn(CHANNELS, device="cuda") for name in ("plain", "ink", "oil")}
    stylizer = Stylizer(styles)
    stylizer.prepare()
    video = list(restyled(stylizer))
    torch.save(torch.cat(video), "video.pt")


if __name__ == "__main__":
    main()
