"""The tables of accounts come to be once, whoever starts, and are never taken from the future."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("fastapi")

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from seamark.server.accounts.tables import is_current, metadata, migrate
from seamark.server.databases import SchemaNewer, open_databases

START = """
import sys
from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.tables import instance_of
from seamark.server.accounts.tables import migrate
from seamark.server.databases import open_databases

databases = open_databases(sys.argv[1])
sys.stdin.readline()
migrate(databases.account)
accounts = Accounts(databases.account)
made = accounts.first_admin()
print(instance_of(databases.account), made.secret if made else "-")
"""


@pytest.fixture
def account(account_url):
    databases = open_databases(account_url)
    yield databases.account
    databases.close()


def test_the_steps_make_the_tables_that_the_code_uses(account):
    """After all steps nothing differs from the tables; a second time does nothing."""
    assert not is_current(account)
    migrate(account)
    assert is_current(account)
    migrate(account)
    with account.reading() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    assert differences == []


def test_what_a_newer_version_changed_is_refused(account):
    """An older server does not touch tables that it does not know."""
    migrate(account)
    with account.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for ask in (migrate, is_current):
        with pytest.raises(SchemaNewer, match=r"newer Seamark .*'9999'"):
            ask(account)


def test_what_a_development_version_made_is_refused(account):
    """It is not said that this version is too old."""
    migrate(account)
    with account.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0003'"))
    for ask in (migrate, is_current):
        with pytest.raises(SchemaNewer, match=r"development version .*'0003'"):
            ask(account)


def test_several_that_start_at_once_make_one_server(account_url):
    """One instance, and one of them gets the token of the one admin."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", START, account_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0], told
    said = [out.split() for out, _ in told]
    assert len({instance for instance, _ in said}) == 1
    assert sorted(token == "-" for _, token in said) == [False, True]
