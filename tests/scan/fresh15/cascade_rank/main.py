"""Ranks a few items for each batch of users in two stages."""

import torch
from catalog import CatalogFeed, refresh
from stages import SHORT, USERS, WIDTH, Heavy, Light, Stage


class Cascade:
    def __init__(self):
        self.light = Light().cuda().eval()
        self.first = Stage(self.light, torch.zeros(USERS, WIDTH, device="cuda"))
        items = torch.zeros(USERS, SHORT, dtype=torch.long, device="cuda")
        self.second = Stage(Heavy(self.light).cuda().eval(), torch.zeros(USERS, WIDTH, device="cuda"), items)

    def rank(self, users):
        rough, items = self.first(users)
        fine = self.second(users, items)
        strong = fine > 0.5
        return items[strong], (fine + 0.01 * rough)[strong]


@torch.inference_mode()
def main():
    torch.manual_seed(12)
    cascade, feed = Cascade(), CatalogFeed()
    shown = []
    for batch in range(24):
        items, scores = cascade.rank(torch.randn(USERS, WIDTH, device="cuda"))
        shown.append((items, scores))
        if batch % 6 == 5:
            refresh(cascade.light, feed)
    torch.save([(items.cpu(), scores.cpu()) for items, scores in shown], "shown.pt")


if __name__ == "__main__":
    main()
