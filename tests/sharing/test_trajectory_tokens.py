"""The tokens in a trajectory: each request's in the step that it made, and all of them in the
sums.
"""

from __future__ import annotations

from gitcp.adapters.base import Message, Usage
from gitcp.sharing import trajectory
from gitcp.sharing.trajectory import Spending

from samples import plain


def at(minute: int) -> str:
    return f"2026-11-02T09:{minute:02}:00Z"


TALK = (
    Message("user", "Go.", time=at(0)),
    Message("thinking", "Hm.", time=at(1)),
    Message("assistant", "I look.", time=at(2)),
    Message("assistant", "{}", time=at(2), tool="read", call="A"),
    Message("tool", "text", time=at(3), call="A"),
    Message("assistant", "Done.", time=at(5)),
)


def test_steps() -> None:
    """A request belongs to the last step that had begun when it ended; cached tokens are a part of
    the prompt's.
    """
    own = [
        Usage("a", "opus", 10, 5, 100, 20, at(2), cost=0.5),
        Usage("b", "opus", 1, 2, 3, 0, at(4), cost=0.25),
        Usage("c", "haiku", 7, 8, 0, 0, at(5), cost=0.25),
        Usage("early", "opus", 1, 1, time="2026-11-02T08:00:00Z", cost=0.0),
        Usage("whenever", "opus", 1, 1, time="yesterday", cost=0.0),
    ]
    asides = [Usage("d", "opus", 1000, 1, cost=1.0)]
    document = trajectory.render(plain(), TALK, Spending(own, asides))
    user, first, last = document["steps"]
    assert "metrics" not in user
    assert first["metrics"] == {
        "prompt_tokens": 134,
        "completion_tokens": 7,
        "cached_tokens": 103,
        "cost_usd": 0.75,
    }
    assert last["metrics"]["prompt_tokens"] == 7
    assert (first["model_name"], last["model_name"]) == ("opus", "haiku")
    assert document["final_metrics"] == {
        "total_steps": 3,
        "total_prompt_tokens": 1143,
        "total_completion_tokens": 18,
        "total_cached_tokens": 103,
        "total_cost_usd": 2.0,
    }


def test_nothing_recorded() -> None:
    """Without requests there are no sums, and without each one's cost none of the costs."""
    assert trajectory.render(plain(), TALK)["final_metrics"] == {"total_steps": 3}
    spending = Spending([Usage("a", "", 1, 1, time=at(5), cost=1.0), Usage("b", "", 1, 1)], ())
    document = trajectory.render(plain(), TALK, spending)
    assert "total_cost_usd" not in document["final_metrics"]
    assert "model_name" not in document["steps"][-1]
