"""A mixer follows the fader in a control file which it keeps open: faulty, the step reads the file."""
import tempfile

import torch


class Fader:
    def __init__(self):
        self.file = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.file.write("0.8\n")
        self.file.flush()

    def read(self):
        self.file.seek(0)
        return float(self.file.readline())


def build(device):
    fader = Fader()
    gains = torch.rand(4, 1, device=device)

    def mix(tracks):
        return (tracks * gains).sum(0) * fader.read()

    return mix, (torch.randn(4, 64, device=device),)
