"""The error for a framework that is not installed."""

from __future__ import annotations

from gitcp.installed import install_extra


def missing(module: str, extra: str, error: ImportError) -> ImportError:
    """Return the error to raise if a framework cannot be imported; it names the extra to install.

    Any other import error is returned unchanged.
    """
    top = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or top == "gitcp":
        return error
    return ImportError(f"{module} needs {top}: {install_extra(extra)}", name=error.name)
