import torch

from pagedlm.cache import Pages
from pagedlm.decode import Decoder, OneLayer


def serve(decoder: Decoder, prompts: list[int], count: int) -> torch.Tensor:
    pages, owned = decoder.pages, [[] for _ in prompts]
    depth = decoder.columns - 3
    columns, last = [], None
    for t in range(count):
        rows = []
        for mine, prompt in zip(owned, prompts):
            if t % pages.size == 0:
                mine.append(pages.alloc())
            slot = mine[-1] * pages.size + t % pages.size
            rows.append([prompt, slot, t + 1] + mine + [Pages.SPARE] * (depth - len(mine)))
        last = decoder(rows, last)
        columns.append(last)
    for mine in owned:
        pages.release(mine)
    return torch.stack(columns, 1)


def main() -> None:
    device = torch.device("cuda")
    torch.manual_seed(3)
    pages = Pages(20, 2, 16, device)
    decoder = Decoder(OneLayer(32, 16).to(device).eval(), pages, (1, 2, 4), 6, device)
    decoder.record()
    texts = []
    for prompts in ([1, 2, 3, 4], [5, 6, 7], [8], [9, 10]):
        texts.append(serve(decoder, prompts, 7))
        pages.wipe()
    print([t.tolist() for t in texts])


if __name__ == "__main__":
    main()
