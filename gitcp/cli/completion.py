"""`gitcp completion`."""

from __future__ import annotations

import click

from gitcp.cli.context import Context
from gitcp.cli.options import Command, OneOf

SHELLS = ("bash", "zsh", "fish")

BASH = r"""_gitcp_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*)
                line=${line#plain,}
                # 63: readline lists what is possible, and inserts nothing
                [[ $COMP_TYPE == 63 ]] && line=${line/$'\t'/  -- }
                COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <(IFS=$'\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" \
        _GITCP_COMPLETE=described_complete "$1")
}
complete -o nosort -F _gitcp_completion gitcp
"""
"""bash lists words without descriptions; on the second Tab, when it only lists, they are added."""


@click.command(cls=Command)
@click.argument("shell", type=OneOf(SHELLS), metavar="{bash|zsh|fish}")
@click.pass_obj
def command(context: Context, shell: str) -> None:
    """Print the completion script for a shell

    Completes commands, options, checkpoint numbers, tags, sessions and phases.

      gitcp completion bash >> ~/.bashrc
      gitcp completion zsh >> ~/.zshrc
      gitcp completion fish > ~/.config/fish/completions/gitcp.fish
    """
    if shell == "bash":
        context.output.data(BASH.encode("utf-8"))
        return
    from click.shell_completion import get_completion_class  # only for this

    from gitcp.cli.main import root
    from gitcp.cli.options import COMPLETE

    script = get_completion_class(shell)
    assert script is not None
    source = script(root, {}, "gitcp", COMPLETE).source()
    context.output.data(source.encode("utf-8") + b"\n")
