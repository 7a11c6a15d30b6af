"""LangGraph checkpoints in git: pass `GitSaver` to `compile(checkpointer=…)`.

Needs the extra `langgraph`; without it, the import error names the package to install.
"""

try:
    import langgraph.checkpoint.base  # noqa: F401 -- only whether it is there
except ImportError as error:
    from gitcp.integrations.extras import missing

    raise missing("gitcp.langgraph", "langgraph", error) from None

from gitcp.langgraph.saver import GitSaver

__all__ = ["GitSaver"]
