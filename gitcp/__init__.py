"""gitcp: save points for coding agents. Files and conversation, together, as one git commit.

Importing this package loads no large dependency. The API (`gitcp.open(path)`, see gitcp.api) is
loaded on first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.api import aopen as aopen
    from gitcp.api import open as open
    from gitcp.api.asynchronous import AsyncCheckpoints as AsyncCheckpoints
    from gitcp.api.checkpoints import Checkpoints as Checkpoints
    from gitcp.api.session import Session as Session
    from gitcp.errors import GitcpError as GitcpError
    from gitcp.model import Agent as Agent
    from gitcp.model import Handoff as Handoff

__version__ = "0.1.0"

_PUBLIC = {
    "Agent": "gitcp.model",
    "AsyncCheckpoints": "gitcp.api.asynchronous",
    "Checkpoints": "gitcp.api.checkpoints",
    "GitcpError": "gitcp.errors",
    "Handoff": "gitcp.model",
    "Session": "gitcp.api.session",
    "aopen": "gitcp.api",
    "open": "gitcp.api",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'gitcp' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
