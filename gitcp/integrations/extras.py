"""Says which extra brings a framework that is not installed."""

from __future__ import annotations


def missing(module: str, extra: str, error: ImportError) -> ImportError:
    """The error to raise where a framework cannot be imported; anything else that went wrong there
    stays as it is.
    """
    top = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or top == "gitcp":
        return error
    return ImportError(
        f"{module} needs {top}: pip install 'gitcp-checkpoints[{extra}]'", name=error.name
    )
