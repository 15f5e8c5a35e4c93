"""Embeds an image gallery with a graphed tower; the tower can be parked on the
host while another job wants the memory."""
import torch
import torch.nn as nn


class Tower(nn.Module):
    def __init__(self, dim=32, patch=8, pixels=32):
        super().__init__()
        self.patchify = nn.Conv2d(3, dim, patch, stride=patch)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, images):
        tokens = self.patchify(images).flatten(2).transpose(1, 2)
        tokens = tokens + self.mlp(self.norm(tokens))
        return nn.functional.normalize(tokens.mean(dim=1), dim=-1)


class Gallery:
    def __init__(self, device, batch=4, pixels=32):
        torch.manual_seed(17)
        self.device = device
        self.batch = batch
        self.tower = Tower(pixels=pixels).to(device).eval().requires_grad_(False)
        sample = torch.zeros(batch, 3, pixels, pixels, device=device)
        self.encode = torch.cuda.make_graphed_callables(self.tower, (sample,))

    def embed(self, images):
        """images: [n, 3, h, w], n a multiple of the batch."""
        parts = []
        for chunk in images.split(self.batch):
            parts.append(self.encode(chunk))
        return torch.cat(parts)

    def park(self):
        self.tower.to("cpu")
        torch.cuda.empty_cache()

    def unpark(self):
        self.tower.to(self.device)


def main():
    device = torch.device("cuda")
    gallery = Gallery(device)
    images = torch.rand(12, 3, 32, 32, device=device)
    first = gallery.embed(images)
    print("similar", (first @ first.t()).mean().item())
    gallery.park()
    gallery.unpark()
    second = gallery.embed(images)
    print("moved", (second - first).abs().max().item())


if __name__ == "__main__":
    main()
