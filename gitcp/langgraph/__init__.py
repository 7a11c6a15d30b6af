"""LangGraph checkpoints in git: pass `GitSaver` to `compile(checkpointer=…)`.

Needs the extra `langgraph`; without it, the import error names the package to install.
"""

try:
    import langgraph.checkpoint.base  # noqa: F401 -- only whether it is there
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gitcp.langgraph needs LangGraph: pip install 'gitcp-checkpoints[langgraph]'",
        name=error.name,
    ) from None

from gitcp.langgraph.saver import GitSaver

__all__ = ["GitSaver"]
