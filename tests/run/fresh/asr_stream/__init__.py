from .session import StreamingSession, transcribe

__all__ = ["StreamingSession", "transcribe"]
