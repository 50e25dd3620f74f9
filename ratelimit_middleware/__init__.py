"""Rate limiting for ASGI and WSGI apps from one rule file."""

__version__ = "0.1.0"
