"""`python -m gitcp`, `gitcp` and `git gitcp`: hands this process to the command line, and ends it.

Nothing else is here, so that what the command line imports, and when, is decided in one place. A
save asks the first stage (gitcp.fastpath.answer) before any of it is loaded, and a hook is answered
without the command line.
"""

from __future__ import annotations

import gc
import os
import sys

SCANNING = frozenset(("redo", "restore", "rollback", "save", "status", "undo"))
"""Commands for which the look at the working tree begins before they are loaded."""


def main() -> None:
    """Run the command line on this process's arguments; does not return."""
    try:
        if None in (sys.stdin, sys.stdout, sys.stderr):
            _open_closed()
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were loading
        code = 130
    # everything is flushed; taking the interpreter down costs as much as a small save
    os._exit(code)


def _open_closed() -> None:
    """Open the standard streams that were closed at the start: the next file opened would take a
    stream's number, and get what is meant for it.
    """
    while os.open(os.devnull, os.O_RDWR) <= 2:
        pass
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def _run(args: list[str]) -> int:
    look = None
    if args[:1] and args[0] in SCANNING:
        gc.disable()  # it ends before there is anything to collect
        from gitcp.fastpath import answer

        look = answer.begin(args[1:])
        if look is not None and args[0] == "save" and answer.answered(look, args[1:]):
            return 0
    if args[:1] == ["hook"] and not {"-h", "--help"} & set(args):
        gc.disable()
        return _hook(args[1:])
    from gitcp.cli.main import run

    return run(args, look)


def _hook(args: list[str]) -> int:
    """Run `gitcp hook ARGS` and return 0, whatever happens."""
    try:
        from gitcp.hooks import limits

        until = limits.begin(args)  # before anything that could block
        from gitcp.hooks.handler import run

        return run(args, until)
    except BaseException:  # noqa: BLE001 -- a hook never fails its agent
        return 0


if __name__ == "__main__":
    main()
