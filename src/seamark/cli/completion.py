"""``seamark completion``: tab completion of commands, options, runs and paths."""

from __future__ import annotations

import click

from seamark.cli._app import SHELLS, script


@click.command(short_help="Print the completion script for your shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script: Tab then completes commands, options, runs, projects and paths.

    Load it from your shell's startup file, and open a new terminal. bash has to be 4.4 or newer;
    in zsh, compinit has to come first.

    \b
    Examples:
      echo 'eval "$(seamark completion bash)"' >> ~/.bashrc
      echo 'eval "$(seamark completion zsh)"' >> ~/.zshrc
      seamark completion fish > ~/.config/fish/completions/seamark.fish
    """
    from seamark.cli._app import app

    click.echo(script(app, shell))
