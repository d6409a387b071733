"""The tables of accounts come to be once, whoever starts, and are never taken from the future."""

from __future__ import annotations

import contextlib

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from at_once import at_once

from seamark.server.accounts.tables import is_current, metadata, migrate
from seamark.server.databases import SchemaNewer, open_databases

START = """
import sys
from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.tables import instance_of, migrate
from seamark.server.databases import open_databases
databases = open_databases(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
migrate(databases.account)
accounts = Accounts(databases.account)
made = accounts.first_admin()
print(instance_of(databases.account), made.secret if made else "-")
"""


def test_migrations_make_the_tables_of_the_code_and_refuse_other_versions(account_url):
    with contextlib.closing(open_databases(account_url)) as databases:
        account = databases.account
        assert not is_current(account)
        for _ in range(2):
            migrate(account)
            assert is_current(account)
        with account.reading() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        for version, words in (
            ("9999", r"migrated by a newer Seamark .*'9999'.* update Seamark"),
            ("0003", r"development version .*'0003'"),  # this one is not too old for it
        ):
            with account.writing() as connection:
                connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{version}'"))
            for ask in (migrate, is_current):
                with pytest.raises(SchemaNewer, match=words):
                    ask(account)


def test_servers_that_start_at_once_make_one_instance_and_one_admin(account_url):
    told = [line.split() for (line,) in at_once(START, [account_url], [account_url])]
    assert len({instance for instance, _ in told}) == 1
    assert sorted(token == "-" for _, token in told) == [False, True]
