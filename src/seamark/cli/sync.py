"""``seamark sync``: send unsent data of runs to their remotes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from seamark.cli import fsck
from seamark.cli._app import EXIT_FAILURE, misuse, root_only
from seamark.cli._runs import open_runs, project_option, query_option, runs_argument
from seamark.cli._screen import note, progress_bar
from seamark.journal.folder import RunFolder, iter_runs
from seamark.paths import PROJECT_LOG
from seamark.reading.names import CONFLICTS
from seamark.reading.text import human_bytes, plural

if TYPE_CHECKING:
    from seamark.reading.names import Conflict
    from seamark.registry.transfer import Moved
    from seamark.remote.sync import Left


A = TypeVar("A")
B = TypeVar("B")

_MAX_CONCURRENT: Final = 4
"""Maximum number of runs sent at the same time; a server commits concurrent data together."""


@click.command(short_help="Send unsent data of runs to a server or another root.")
@runs_argument
@click.option(
    "--to",
    "uris",
    multiple=True,
    metavar="URI",
    help="Destination, such as https://seamark.lab, file:///mnt/runs or "
    "neptune://workspace/project; may be repeated.  [default: SEAMARK_REMOTE]",
)
@project_option
@query_option
@click.option(
    "--conflict",
    type=click.Choice(CONFLICTS),
    default="new",
    show_default=True,
    help="What to do if another run of the project at the destination has the same name: new "
    "names the sent run NAME-2 there, skip does not send it, error stops, and replace moves the "
    "other run to the trash.",
)
@click.option(
    "--make-project/--no-make-project",
    default=True,
    show_default=True,
    help="Create missing projects at the destination, or refuse them.",
)
@click.option(
    "--to-project",
    metavar="PROJECT",
    help="Project at the destination for all runs.  [default: the project of each run]",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be sent.")
@root_only
@click.pass_context
def sync(
    context: click.Context,
    names: tuple[str, ...],
    uris: tuple[str, ...],
    project: str | None,
    query: str | None,
    conflict: Conflict,
    *,
    make_project: bool,
    to_project: str | None,
    dry_run: bool,
) -> None:
    """Send unsent data of runs, and of the logs of their projects, to a server or another root.

    A training with a remote sends its data itself. This command sends data that is still in the run
    folder because the training was killed or had no network, even while its process is running.
    Data that the destination already has is not sent again. Files that an ended process had queued
    are stored first, and artifacts that are inputs or outputs of a run are sent with it. Without
    RUN or --query, everything below the root is sent.

    An interrupted command can be repeated and continues where it stopped. A new run becomes visible
    at the destination when it is complete. The exit code is 1 if something could not be sent.

    \b
    Examples:
      seamark sync                                  everything, to SEAMARK_REMOTE
      seamark sync quick-otter --to https://seamark.lab --to-project team/digits
      seamark sync --project digits --dry-run
    """
    remotes = _targets(uris)
    folders = _selected_folders(context, names, project, query)
    if not dry_run:
        fsck.finish_queued(folders)
    failed = False
    for uri in remotes:
        given = {"conflict": conflict, "make_project": make_project, "project": to_project}
        failed |= _sync_to(uri, folders, given, dry_run=dry_run)
    if failed:
        context.exit(EXIT_FAILURE)


def _targets(uris: Sequence[str]) -> list[str]:
    from seamark.remote.schemes import canonical

    given = uris or os.environ.get("SEAMARK_REMOTE", "").replace(",", " ").split()
    found = list(dict.fromkeys(given))
    if not found:
        misuse("no destination: name one with --to URI, or in SEAMARK_REMOTE")
    for uri in found:
        canonical(uri)
    return found


def _selected_folders(
    context: click.Context, names: Sequence[str], project: str | None, query: str | None
) -> list[RunFolder]:
    chosen = bool(names) or query is not None
    runs = open_runs(context, project, refresh=chosen, local="sync")
    if chosen:
        from seamark.registry.transfer import with_artifacts

        refs = runs.chosen(names, project, query, trashed=False if names else None)
        chosen_folders = [RunFolder(runs.local.root, *ref) for ref in refs]
        folders: Iterable[RunFolder] = with_artifacts(chosen_folders)
    else:
        folders = [
            *iter_runs(runs.local.root, project, models=True, unread=_note_unread),
            *fsck.project_logs(runs.local.root, project),
        ]
    return [folder for folder in folders if not folder.is_purged]


def _note_unread(path: str, error: OSError) -> None:
    why = error.strerror or str(error)
    note(f"{path} cannot be read, so nothing in it is sent: {why}", style="warning")


def _sync_to(
    uri: str, folders: Sequence[RunFolder], given: Mapping[str, Any], *, dry_run: bool
) -> bool:
    from seamark.registry.transfer import Mover, expect_other_place
    from seamark.remote.schemes import canonical, open_remote, shown

    remote, place = open_remote(uri), shown(canonical(uri))
    mover = Mover(remote, place, **given)
    try:
        expect_other_place(remote, folders)
        with progress_bar(f"Asking {place}") as progress:
            found = _map_concurrently(mover.look, folders, progress)
        if dry_run:
            return _print_pending(place, found)
        total, sent, lock = sum(one.size for one in found), 0, threading.Lock()
        with progress_bar(f"Sending to {place}", of_bytes=True) as progress:

            def add(size: int) -> None:
                nonlocal sent
                with lock:
                    sent += size
                    progress(sent, max(total, sent))

            done = _map_concurrently(lambda one: mover.move(one, add), found)
    finally:
        remote.close()
    return _print_sent(place, found, done)


def _map_concurrently(
    call: Callable[[A], B],
    given: Sequence[A],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[B]:
    found = []
    pool = ThreadPoolExecutor(_MAX_CONCURRENT, thread_name_prefix="seamark-sync")
    try:
        waiting = [pool.submit(call, one) for one in given]
        for number, one in enumerate(waiting):
            progress(number, len(given))
            found.append(one.result())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return found


def _print_pending(place: str, found: Sequence[Left]) -> bool:
    todo = [one for one in found if one.size or one.files]
    for one in todo:
        journals, files = sum(one.journals.values()), sum(one.files.values())
        click.echo(
            f"{one.folder.project}/{one.folder.run}"
            f"\t{plural(len(one.journals), 'journal')}, {human_bytes(journals)}"
            f"\t{plural(len(one.files), 'file')}, {human_bytes(files)}"
        )
    failed = _print_problems(found)
    _report_purged(place, found)
    if todo:
        size = human_bytes(sum(one.size for one in todo))
        note(f"would send {size} of {_count_text(todo)} to {place}")
    _print_up_to_date(place, found)
    return bool(failed)


def _print_sent(place: str, found: Sequence[Left], done: Sequence[Moved]) -> bool:
    failed = _print_problems(done)
    if sent := [one for one in done if one.journal_bytes or one.files]:
        files = sum(one.files for one in sent)
        size = human_bytes(sum(one.journal_bytes + one.file_bytes for one in sent))
        more = f", {plural(files, 'file')} with them" if files else ""
        note(f"sent {size} of {_count_text(sent)} to {place}{more}")
    if skipped := [one for one in done if one.skipped]:
        note(f"not sent: {_count_text(skipped)}; other runs at {place} have the same names")
    _report_purged(place, done)
    for one in done:
        if one.name is not None and one.name != one.called:
            note(f"{one.folder.words} is called {one.name!r:.200} at {place}")
    _print_up_to_date(place, found)
    if failed:
        note(
            f"some data of {_count_text(failed)} is missing at {place}; sync again later",
            style="error",
        )
    return bool(failed)


def _print_problems(found: Sequence[Left] | Sequence[Moved]) -> list[Left | Moved]:
    failed = [one for one in found if one.problems]
    by_line: dict[str, list[Left | Moved]] = {}
    for one in failed:
        for line in one.problems:
            by_line.setdefault(line, []).append(one)
    for line, of in by_line.items():
        note(f"{of[0].folder.words if len(of) == 1 else _count_text(of)}: {line}", style="warning")
    return failed


def _report_purged(place: str, found: Sequence[Left] | Sequence[Moved]) -> None:
    if purged := [one for one in found if one.purged]:
        was, keeps = ("was", "it stays") if len(purged) == 1 else ("were", "they stay")
        note(f"{_count_text(purged)} {was} purged at {place} and not sent; {keeps} here")


def _print_up_to_date(place: str, found: Sequence[Left]) -> None:
    there = [one for one in found if not (one.size or one.files or one.problems or one.purged)]
    if not found:
        note("there are no runs to send")
    elif there:
        note(f"{_count_text(there)} {'was' if len(there) == 1 else 'were'} at {place} already")


def _count_text(found: Sequence[Left | Moved]) -> str:
    logs = sum(one.folder.run == PROJECT_LOG for one in found)
    runs = len(found) - logs
    parts = [plural(runs, "run")] if runs or not logs else []
    return " and ".join([*parts, *([plural(logs, "project log")] if logs else [])])
