import torch


class Slot:
    """Pinned memory of one batch in flight, and the event after its last copy."""

    def __init__(self, rows, length, dim):
        self.ids = torch.zeros(rows * length, dtype=torch.long, pin_memory=True)
        self.lengths = torch.zeros(rows, dtype=torch.long, pin_memory=True)
        self.vectors = torch.zeros(rows, dim, pin_memory=True)
        self.finished = torch.cuda.Event()
        self.owner = None

    def fill(self, texts, rows, length):
        ids = self.ids[: rows * length].view(rows, length)
        ids.zero_()
        self.lengths.fill_(1)
        for i, text in enumerate(texts):
            ids[i, : len(text)] = torch.tensor(text)
            self.lengths[i] = len(text)
        return ids, self.lengths[:rows]


class Pending:
    def __init__(self, slot, count):
        self.slot, self.count = slot, count
        self.value = None
        slot.owner = self

    def result(self):
        if self.value is None:
            self.slot.finished.synchronize()
            self.value = self.slot.vectors[: self.count].clone()
            self.slot.owner = None
        return self.value
