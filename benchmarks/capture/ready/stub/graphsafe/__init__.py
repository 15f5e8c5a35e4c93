"""A stand-in for the contract's Step, for the oracle alone."""


class Step:
    def __init__(self, fn, args=(), kwargs=None, refresh=None, reset=None, **rest):
        self.fn, self.args, self.kwargs = fn, tuple(args), dict(kwargs or {})
        self.refresh, self.reset, self.rest = refresh, reset, rest
