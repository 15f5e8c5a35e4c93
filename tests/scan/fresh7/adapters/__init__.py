from .bank import AdapterBank, Slot
from .service import AdapterService

__all__ = ["AdapterBank", "Slot", "AdapterService"]
