import math


class KarrasSchedule:
    def __init__(self, steps: int, lo: float = 0.05, hi: float = 8.0, rho: float = 5.0):
        a, b = hi ** (1 / rho), lo ** (1 / rho)
        self.sigmas = [(a + i / (steps - 1) * (b - a)) ** rho for i in range(steps)] + [0.0]
        self.index = 0

    def __len__(self):
        return len(self.sigmas) - 1

    def seek(self, index: int):
        self.index = index

    @property
    def current(self) -> float:
        return self.sigmas[self.index]

    @property
    def following(self) -> float:
        return self.sigmas[self.index + 1]

    def log_snr(self) -> float:
        return -2.0 * math.log(self.current)
