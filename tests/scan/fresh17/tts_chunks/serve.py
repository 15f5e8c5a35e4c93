import torch

from session import Session
from vocoder import StreamingVocoder


def acoustic(count, device):
    gen = torch.Generator(device=device).manual_seed(3)
    for _ in range(count):
        yield torch.randn(4, 20, device=device, generator=gen)


@torch.inference_mode()
def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    session = Session(StreamingVocoder().to(device).eval(), device)
    clip = []
    for frames in acoustic(14, device):
        session.feed(frames)
        for wave in session.take():
            clip.append(wave.cpu())
    print(torch.cat(clip).shape)


if __name__ == "__main__":
    main()
