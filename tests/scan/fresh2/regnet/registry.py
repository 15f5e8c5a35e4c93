class Registry:
    def __init__(self, what):
        self.what = what
        self._table = {}

    def register(self, cls):
        self._table[cls.kind] = cls
        return cls

    def from_config(self, config, **extra):
        try:
            cls = self._table[config.kind]
        except KeyError:
            raise ValueError(f"no {self.what} named {config.kind!r}") from None
        return cls(**config.options, **extra)


LAYERS = Registry("layer")
