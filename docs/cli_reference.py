"""Write the reference of the command: ``python docs/cli_reference.py > docs/reference/cli.md``.

The page is the commands' own help. ``tests/test_docs.py`` fails when it is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from seamark.cli import app

OPENING = """\
# The command `seamark`

```text
{help}
```
"""
SECTION = """
## `seamark {name}`

```text
{help}
```
"""


def help_of(command: click.Command, context: click.Context) -> str:
    """Return the help that ``--help`` shows on a terminal 100 characters wide."""
    context.terminal_width = 100
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def page() -> str:
    """Return the whole page."""
    top = click.Context(app, info_name="seamark", **app.context_settings)
    text = OPENING.format(help=help_of(app, top))
    for name in app.list_commands(top):
        command = app.get_command(top, name)
        assert command is not None  # noqa: S101 - list_commands named it
        text += "".join(sections(command, click.Context(command, top, name), name))
    return text


def sections(command: click.Command, context: click.Context, name: str) -> Iterator[str]:
    """Yield the section of a command, and those of its own commands."""
    yield SECTION.format(name=name, help=help_of(command, context))
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            inner = command.get_command(context, part)
            assert inner is not None  # noqa: S101 - list_commands named it
            yield from sections(inner, click.Context(inner, context, part), f"{name} {part}")


if __name__ == "__main__":
    sys.stdout.write(page())
