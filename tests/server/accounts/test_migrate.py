"""The tables of accounts come to be once, whoever starts, and are never taken from the future."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("fastapi")

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext

from seamark.server.accounts.tables import is_current, metadata, migrate
from seamark.server.databases import SchemaNewer, open_databases
from seamark.server.purging import ServerClaims

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


def test_claims_of_an_earlier_version_stay(account):
    """Their numbers as well, and that they were given back."""
    config = Config()
    config.set_main_option("script_location", "seamark.server.accounts:migrations")
    with account.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        insert = "INSERT INTO claim VALUES ('p', 'run', :name, 3, 'ab', :by, 5, :released)"
        by = '{"key": "ab", "host": "h", "pid": 1}'
        for name, released in (("held", None), ("free", 7)):
            values = {"name": name, "by": by, "released": released}
            connection.execute(sa.text(insert), values)
    migrate(account)
    claims = ServerClaims(account, lambda: None, lambda *_: 1, lambda: 9)
    assert [claims.holds(("p", name), "run", 3, "ab") for name in ("held", "free")] == [True, False]
    assert not claims.release(("p", "held"), "run", 3, "cd")
    taken = claims.take([("p", "held"), ("p", "free")], "run", {"key": "ef"})
    assert taken == (("p", "free"), 4, 1)
    assert claims.release(("p", "held"), "run", 3, "ab")
    assert claims.take([("p", "held")], "run", {"key": "ef"}).number == 4


def test_what_a_newer_version_changed_is_refused(account):
    """An older server does not touch tables that it does not know."""
    migrate(account)
    with account.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    for ask in (migrate, is_current):
        with pytest.raises(SchemaNewer, match=r"newer Seamark .*'9999'"):
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
