"""The time that is left for further steps. The number of steps should seldom depend on the machine's load."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TimeLeft:
    """A limit on this process's CPU time and on the total time, both counted from now on."""

    cpu_seconds: float
    seconds: float
    _begun: float = field(default_factory=time.monotonic)
    _worked: float = field(default_factory=time.process_time)

    def is_over(self, done: int, used: float = 0.0) -> bool:
        """Return whether the time is over after `done` steps. `used` is the share of another limit that these steps
        have used.

        A report states a power of two as the number of steps. So when `done` is a power of two, further steps run only
        if there is time to double their number.
        """
        share = 2 - 1 / done if done and done == power_of_two(done) else 1
        return done > 0 and share * max(self.used(), used) > 1

    def used(self) -> float:
        """Return the share of the time that is used; more than 1 if the time is over."""
        worked, waited = time.process_time() - self._worked, time.monotonic() - self._begun
        return max(worked / self.cpu_seconds, waited / self.seconds)


def power_of_two(number: int) -> int:
    """Return the largest power of two up to a number; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number else 0
