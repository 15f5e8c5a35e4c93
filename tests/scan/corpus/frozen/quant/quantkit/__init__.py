"""Low precision: observers, codes and adapters."""
