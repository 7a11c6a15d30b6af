"""Read a transcript of OpenClaw as a dialogue: its entries are Pi's. It cannot be written."""

from gitcp.adapters.pi.converting import read

__all__ = ["read"]
