import torch


class PagedRunner:
    def __init__(self, layer, rows, width, max_pages, device):
        self.layer, self.rows, self.max_pages = layer, rows, max_pages
        self.x = torch.zeros(rows, width, device=device)
        self.meta = torch.zeros(rows, max_pages + 1, dtype=torch.long, device=device)
        self.meta[:, :max_pages].fill_(layer.pages.trash)
        self.table, self.length = self.meta[:, :max_pages], self.meta[:, max_pages]
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                layer(self.x, self.table, self.length)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = layer(self.x, self.table, self.length)

    def step(self, x, tables, lengths):
        rows = []
        for pages, length in zip(tables, lengths):
            rows.append(pages + [self.layer.pages.trash] * (self.max_pages - len(pages)) + [length])
        while len(rows) < self.rows:
            rows.append([self.layer.pages.trash] * self.max_pages + [0])
        self.meta.copy_(torch.tensor(rows).pin_memory(), non_blocking=True)
        self.x.zero_()
        self.x[: len(tables)].copy_(x)
        self.graph.replay()
        return self.y[: len(tables)].clone()
