"""`gitcp completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gitcp.cli.context import Context
from gitcp.cli.group import COMPLETE
from gitcp.cli.options import Command, pass_context

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@pass_context
def command(context: Context, shell: str) -> None:
    """Print the completion script for a shell

    Commands, options, tags and sessions are then completed.

      gitcp completion bash >> ~/.bashrc
      gitcp completion zsh >> ~/.zshrc
      gitcp completion fish > ~/.config/fish/completions/gitcp.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    script = found(click.get_current_context().find_root().command, {}, "gitcp", COMPLETE).source()
    context.output.data(script.encode("utf-8") + b"\n")
