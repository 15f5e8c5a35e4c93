import torch


class Pages:
    """A pool of fixed pages; the last page takes the writes of padding rows."""

    def __init__(self, count, page, width, device):
        self.page, self.trash = page, count
        self.k = torch.zeros(count + 1, page, width, device=device)
        self.v = torch.zeros(count + 1, page, width, device=device)
        self.free = list(range(count))

    def take(self):
        return self.free.pop()

    def give(self, pages):
        self.free.extend(pages)

    def write(self, table, length, k, v):
        page = table.gather(1, torch.div(length, self.page, rounding_mode="floor").unsqueeze(1)).squeeze(1)
        row = page * self.page + length % self.page
        self.k.view(-1, k.shape[-1]).index_copy_(0, row, k)
        self.v.view(-1, v.shape[-1]).index_copy_(0, row, v)

    def read(self, table):
        n = table.shape[0]
        return self.k[table].reshape(n, -1, self.k.shape[-1]), self.v[table].reshape(n, -1, self.v.shape[-1])
