import torch
from torch import nn
import torch.nn.functional as F


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(6, 8, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, frame, prev):
        y = self.c2(F.relu(self.c1(torch.cat([frame, prev], 1))))
        return F.pixel_shuffle(y, 2)


class Player:
    def __init__(self, net, device):
        self.net, self.device = net, device
        self.entries = {}

    @torch.no_grad()
    def entry(self, frame, sharpen):
        key = tuple(frame.shape[-2:])
        if key not in self.entries:
            f, p = torch.zeros_like(frame), torch.zeros_like(frame)
            run = lambda: self.net(f, p) * sharpen
            s = torch.cuda.Stream()
            s.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(s):
                run()
            torch.cuda.current_stream().wait_stream(s)
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                out = run()
            self.entries[key] = (g, f, p, out)
        return self.entries[key]

    def play(self, frames, sharpen):
        last, shown = None, []
        for frame in frames:
            g, f, p, out = self.entry(frame, sharpen)
            f.copy_(frame)
            p.copy_(frame if last is None else last)
            g.replay()
            shown.append(out[0])
            luma = out.mean()
            if luma > 0.9:
                sharpen *= 0.9
            last = frame
        return torch.stack(shown)


def main(device="cuda"):
    torch.manual_seed(15)
    player = Player(Upscaler().to(device), device)
    for size, sharpen in ((8, 1.0), (12, 1.0), (8, 1.4)):
        clip = [torch.rand(1, 3, size, size, device=device) for _ in range(5)]
        print(player.play(clip, sharpen).shape)


if __name__ == "__main__":
    main()
