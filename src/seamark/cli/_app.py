"""Group of commands, suggestions for wrong names, and errors as one line with an exit code.

Exit codes: 0 success, 1 failure or a problem in the data, 2 wrong usage, 130 interrupted, 141
closed pipe. An error in a query is followed by the line with the mistake and a caret.
"""

from __future__ import annotations

import codecs
import contextlib
import difflib
import functools
import gc
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.shell_completion import get_completion_class, shell_complete

from seamark.cli._screen import be_quiet, wanted_colour
from seamark.errors import (
    ArgumentError,
    MissingExtraError,
    MissingFieldError,
    PathError,
    QueryError,
    RunNotFoundError,
    SeamarkError,
)
from seamark.reading.text import clean, readable

_NEVER_SUGGESTED: Final = frozenset({"purge", "reindex", "trash", "untrash"})
"""Commands that are never suggested: they hide or delete data or take long, and the user may press
Return."""
_SYNONYMS: Final = {
    "chart": "plot",
    "check": "fsck",
    "cmp": "compare",
    "dashboard": "ui",
    "diff": "compare",
    "dir": "ls",
    "download": "export",
    "dump": "export",
    "follow": "watch",
    "info": "show",
    "label": "tag",
    "list": "ls",
    "live": "watch",
    "mv": "rename",
    "note": "describe",
    "push": "sync",
    "runs": "ls",
    "search": "ls",
    "serve": "ui",
    "tail": "watch",
    "top": "watch",
    "upload": "sync",
    "verify": "fsck",
    "view": "show",
    "web": "ui",
}
_DELETING: Final = frozenset({"delete", "del", "erase", "remove", "rm"})
_MIN_SIMILARITY: Final = 0.6


def unknown_command_message(name: str, known: Iterable[str]) -> str:
    typed = name.lower()
    if typed in _DELETING:
        return f"there is no command {name!r}; to move a run to the trash see: seamark trash --help"
    harmless = [one for one in known if one not in _NEVER_SUGGESTED]
    matches = difflib.get_close_matches(typed, harmless, 1, _MIN_SIMILARITY)
    suggestion = _SYNONYMS.get(typed) or (matches[0] if matches else None)
    hint = f"; commands include {', '.join(harmless)}"
    if suggestion:
        hint = f"; did you mean {suggestion!r}?"
    return f"there is no command {name!r}{hint}"


def unknown_option_message(error: click.NoSuchOption, context: click.Context) -> str:
    options = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    # Compare without dashes, which would make all options similar.
    known = [max(one.opts, key=len).lstrip("-") for one in options]
    near = difflib.get_close_matches(error.option_name.lstrip("-").lower(), known, 1)
    hint = f"did you mean '--{near[0]}'?" if near else f"there are --{', --'.join(known)}"
    return f"there is no option {error.option_name!r}; {hint}"


COMPLETE: Final = "_SEAMARK_COMPLETE"
"""Environment variable with which a shell requests completions instead of running a command."""
SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "seamark"


def complete(group: click.Group, instruction: str) -> int:
    """Answer a shell's instruction (``"bash_complete"``) on standard output; never raises."""
    with (
        contextlib.suppress(Exception),
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):
        code = shell_complete(group, {}, _PROGRAM, COMPLETE, instruction)
        sys.stdout.flush()
        return code
    return 1


EXIT_FAILURE: Final = 1
EXIT_MISUSE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
_GC_THRESHOLD: Final = 100_000
"""Threshold of the garbage collector; the default makes the start a tenth slower."""
_ENCODING: Final = "seamark.readable"
codecs.register_error(_ENCODING, readable)
_MISUSES: Final = (
    ArgumentError,
    MissingExtraError,
    MissingFieldError,
    PathError,
    QueryError,
    RunNotFoundError,
)
_COMMANDS: Final = {
    "ls": "ls",
    "show": "show",
    "compare": "compare",
    "watch": "watch",
    "logs": "logs",
    "plot": "plot",
    "export": "export",
    "lineage": "lineage",
    "changes": "changes",
    "tag": "edits",
    "rename": "edits",
    "describe": "edits",
    "trash": "edits",
    "untrash": "edits",
    "purge": "edits",
    "sync": "sync",
    "import": "import_",
    "fsck": "fsck",
    "reindex": "fsck",
    "login": "server",
    "logout": "server",
    "token": "server",
    "ui": "ui",
    "server": "server",
    "completion": "_app",
}
"""Module of each command, in the order of the help text."""


class CommandError(click.ClickException):
    """Failure of a command that was used correctly."""

    exit_code = EXIT_FAILURE


class Misuse(click.ClickException):
    """Wrong usage: an argument that does not exist or does not fit the command."""

    exit_code = EXIT_MISUSE


class QueryMisuse(Misuse):
    """Mistake in a query, a column or a sort path; further lines of the message point at it."""


def _store_option(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.find_root().params[str(option.name)] = value


def options(*given: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda command: functools.reduce(lambda made, one: one(made), reversed(given), command)


root_only = options(
    click.option(
        "--root",
        type=click.Path(),
        metavar="DIR",
        expose_value=False,
        callback=_store_option,
        help="Folder of the runs.  [default: SEAMARK_DIR, else the nearest .seamark folder here "
        "or above]",
    )
)
"""``--root``, which may also precede the name of the command. For commands that read folders and
cannot use a server.
"""
root_option = options(
    root_only,
    click.option(
        "--remote",
        metavar="URI",
        expose_value=False,
        callback=_store_option,
        help="Server of the runs, such as https://seamark.lab.  [default: SEAMARK_REMOTE]",
    ),
)
"""``--root`` and ``--remote``, which may also precede the name of the command."""
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one strict JSON document; NaN and infinities as strings.",
)
_QUIET: Final = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    callback=be_quiet,
    help="Print only warnings and errors on standard error, no hints and notes.",
)
"""Option that is added to every command."""


class CommandGroup(click.Group):
    """Group that imports each command when it is used; every error is printed as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"seamark.cli.{_COMMANDS[cmd_name]}")
        name = _COMMANDS[cmd_name] if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(module, name)
        if _QUIET not in command.params:
            command.params.append(_QUIET)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown = args and args[0] not in _COMMANDS and not args[0].startswith("-")
        if unknown and not ctx.resilient_parsing:
            ctx.fail(unknown_command_message(args[0], _COMMANDS))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            if error.ctx is None and name in _COMMANDS:  # then its help is named
                command = self.get_command(ctx, name) or self
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise
        except SeamarkError as error:
            raise _as_click_error(error) from error
        except BrokenPipeError:
            _drop_output()
            ctx.exit(EXIT_PIPE)  # click itself would exit with 1
        except OSError as error:
            words = error.strerror or str(error) or type(error).__name__
            where = f"{error.filename}: " if error.filename else ""
            raise CommandError(where + words) from error


def _as_click_error(error: SeamarkError) -> click.ClickException:
    if isinstance(error, QueryError):
        return QueryMisuse(re.sub(r"^sort_by:", "sort:", str(error)))  # the name of the option
    return (Misuse if isinstance(error, _MISUSES) else CommandError)(str(error))


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="For each command's options and examples: seamark COMMAND --help",
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option("--root", type=click.Path(), metavar="DIR", hidden=True)
@click.option("--remote", metavar="URI", hidden=True)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=be_quiet,
    help="Print no hints and notes on standard error. After a command, use --quiet (-q is "
    "--query there).",
)
@click.pass_context
def app(context: click.Context, root: str | None, remote: str | None, *, version: bool) -> None:
    """Inspect and manage recorded training runs.

    Runs are read from --root DIR or --remote URI, otherwise from SEAMARK_REMOTE, SEAMARK_DIR, or
    the nearest .seamark folder in the working directory or above it. Reading never disturbs a
    running training.

    \b
    A first look:
      seamark ls                            the runs, newest first
      seamark show quick-otter              what one run recorded
      seamark watch                         the running training, live
      seamark logs quick-otter              output of one run
      seamark plot quick-otter val/loss     a curve, here in the terminal
      seamark compare quick-otter latest    how two runs differ
      seamark ls --query 'val/loss < 0.3' --sort val/loss:min

    RUN is the id of a run, the first characters of the id, its name (given or generated), or
    "latest" for the newest run. Each may be prefixed with PROJECT/. Output to a pipe is plain text
    and never truncated; --limit and --columns still apply. For programs, use --json.
    """
    del root, remote  # read from the context
    if version:
        from seamark import __version__

        click.echo(f"seamark {__version__}")
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; never raises and never shows a traceback.

    If ``SEAMARK_TRACEBACK=1`` is set, an unexpected error is raised, for bug reports.
    """
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ENCODING)  # a terminal without UTF-8 must not cause an error
    thresholds = gc.get_threshold()
    gc.set_threshold(_GC_THRESHOLD)
    try:
        if instruction := os.environ.get("_SEAMARK_COMPLETE"):
            return complete(app, instruction)
        return _run(args)
    finally:
        gc.set_threshold(*thresholds)


def _open_missing_streams() -> None:
    """Discard standard output or standard error if the caller closed it (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - stays open


def _run(args: Sequence[str] | None) -> int:
    try:
        code = app.main(args, prog_name="seamark", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except click.ClickException as error:
        _print_error(error)
        return int(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return EXIT_PIPE
    except Exception as error:
        if os.environ.get("SEAMARK_TRACEBACK"):
            raise
        where = "set SEAMARK_TRACEBACK=1 to see where"
        _print_error(CommandError(f"unexpected {type(error).__name__}: {error} ({where})"))
        try:
            sys.stdout.flush()
        except OSError:  # a full disk; Python would try again at exit and end with 120
            _drop_output()
        return EXIT_FAILURE
    return code if isinstance(code, int) else 0


def _print_error(error: click.ClickException) -> None:
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        text = unknown_option_message(error, error.ctx)
    message, *place = text.split("\n")
    if not isinstance(error, QueryMisuse):
        message, place = " ".join([message, *place]), []
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "seamark"
    wanted = isinstance(error, click.UsageError) and "--help" not in message
    hint = f" (see: {command} --help)" if wanted else ""
    with contextlib.suppress(OSError):  # standard error is closed
        click.secho(f"{command}: {clean(message)}{hint}", err=True, fg="red", color=wanted_colour())
        for line in place:
            click.secho(clean(line), err=True, color=wanted_colour())


def _drop_output() -> None:
    # so that the flush at exit does not fail
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())


def place_of(context: click.Context, *, local: str = "") -> tuple[Path | str, bool]:
    """Return the root or server address of the runs, and whether the user specified it.

    Options take precedence over variables, and ``SEAMARK_REMOTE`` over ``SEAMARK_DIR``, in which a
    training may keep a local copy. ``local`` is the name of a command that can only read a root.
    """
    from seamark.journal.folder import root_dir
    from seamark.opening.place import first_remote, readable

    params = context.find_root().params
    root, remote = params.get("root"), params.get("remote")
    if root is not None and remote is not None:
        misuse("expected one of --root and --remote, got both")
    if local and remote is not None:
        misuse(f"{local} reads a root on this machine, not a server: name the root with --root")
    if (
        root is None
        and not local
        and (uri := remote or first_remote(os.environ.get("SEAMARK_REMOTE")))
    ):
        return readable(uri), True
    return root_dir(root), bool(root or os.environ.get("SEAMARK_DIR"))


def misuse(message: str) -> NoReturn:
    raise Misuse(message)


@click.command(short_help="Print the completion script for your shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a completion script, so that Tab completes commands, options, runs, projects and paths.

    Load it in the startup file of your shell, then open a new terminal. It requires bash 4.4 or
    newer; in zsh, call compinit first.

    \b
    Examples:
      echo 'eval "$(seamark completion bash)"' >> ~/.bashrc
      echo 'eval "$(seamark completion zsh)"' >> ~/.zshrc
      seamark completion fish > ~/.config/fish/completions/seamark.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - all of SHELLS have one
    made = kind(app, {}, _PROGRAM, COMPLETE)
    # Not source(): for bash, it starts a process to check the version.
    click.echo(made.source_template % made.source_vars())
