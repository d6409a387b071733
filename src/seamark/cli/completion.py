"""``seamark completion``: have the shell complete commands, options, runs and paths."""

from __future__ import annotations

import click

from seamark.cli._complete import SHELLS, script

__all__ = ["completion"]


@click.command(short_help="Have your shell complete commands, runs and paths.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes Tab complete commands, options, runs, projects and paths.

    Put it where your shell finds it, and open a new terminal. bash has to be 4.4 or newer; in zsh,
    compinit has to come first.

    \b
    Examples:
      mkdir -p ~/.local/share/bash-completion/completions
      seamark completion bash > ~/.local/share/bash-completion/completions/seamark
      echo 'eval "$(seamark completion bash)"' >> ~/.bashrc   without bash-completion
      echo 'eval "$(seamark completion zsh)"' >> ~/.zshrc
      seamark completion fish > ~/.config/fish/completions/seamark.fish
    """
    from seamark.cli._app import app

    click.echo(script(app, shell))
