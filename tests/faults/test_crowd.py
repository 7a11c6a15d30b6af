"""Many processes at one store lose nothing: small; `python tests/faults/run.py crowd` is the large
one.
"""

from __future__ import annotations

from faults import crowd

from driver import Project, Result


def test_one_session(project: Project) -> None:
    """Six processes save into one session at a time: every save is there, under a number of its
    own, without a gap.
    """
    crowd.begin(project)
    with project.guard():
        saves = crowd.save_all(project, ["one"] * 6, 3)

    crowd.insist(project, saves, 18)
    assert crowd.numbers(project, "one") == list(range(1, 19))


def test_beside_everything(project: Project) -> None:
    """Saves into several sessions beside git's gc, repack, pack-refs, commits, branch switches and
    rebases, beside restores and prunes, while an agent writes: each save that was reported is
    there.
    """
    talk = crowd.begin(project)
    others: list[Result] = []
    sessions = ["one", "one", talk.session[:8]]

    saves = crowd.save_all(project, sessions, 3, crowd.everything(project, talk, others))

    crowd.insist(project, saves, 9)
    assert crowd.numbers(project, "one")[-1] == 6  # a prune may have taken the first ones
    assert others
    # Done, done in part, busy, or refused because a file changed meanwhile: never anything else.
    assert {other.code for other in others} <= {0, 3, 11, 12}, [
        o for o in others if o.code not in {0, 3, 11, 12}
    ]
