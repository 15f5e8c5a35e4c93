"""Trains the tagger on noisy clusters."""

import torch
from callbacks import Cosine, HeadOnly, Printer, Restart
from trainer import BATCH, CLASSES, INPUTS, GraphTrainer


def batches(count):
    centers = torch.randn(CLASSES, INPUTS, device="cuda")
    for _ in range(count):
        y = torch.randint(0, CLASSES, (BATCH,), device="cuda")
        yield centers[y] + torch.randn(BATCH, INPUTS, device="cuda"), y


def main():
    torch.manual_seed(0)
    trainer = GraphTrainer([Cosine(4e-3, 20), Restart(20), HeadOnly(30), Printer(5)])
    trainer.fit(batches(60))
    torch.save(trainer.model.state_dict(), "tagger.pt")


if __name__ == "__main__":
    main()
