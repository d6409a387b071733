"""What happens again and again is logged once a minute of each kind."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("fastapi")

from seamark.server import failures
from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.logins import Logins
from seamark.server.accounts.tables import migrate, prefix_of
from seamark.server.databases import open_databases
from seamark.server.failures import Refusal, later, refusal_of


@pytest.fixture
def clock(monkeypatch):
    """Seconds of the monotonic clock, moved by hand."""
    now = [1000.0]
    monkeypatch.setattr(failures, "_kinds", {})
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_kind_is_logged_once_a_minute(clock, caplog):
    for _ in range(3):
        refusal_of(later("busy", "too many"))
        refusal_of(Refusal(429, "too-many", "wait"))
    assert caplog.messages == ["refused (503): too many", "refused (429): wait"]
    clock[0] += 60
    refusal_of(later("busy", "too many"))
    assert caplog.messages[2:] == ["refused (503): too many (and 2 times since the last line)"]


def test_tokens_that_are_refused_are_logged_without_what_is_secret(clock, caplog, account_url):
    databases = open_databases(account_url)
    migrate(databases.account)
    accounts = Accounts(databases.account)
    admin = accounts.first_admin()
    logins = Logins(accounts)
    accounts.revoke(prefix_of(admin.secret))
    for secret in (admin.secret, "seamark_" + "x" * 52, admin.secret):
        with pytest.raises(Refusal):
            logins.identify({"authorization": f"Bearer {secret}"}, "192.0.2.1")
    assert len(caplog.messages) == 2
    assert all(" from 192.0.2.1: " in line for line in caplog.messages)
    assert admin.secret not in caplog.text
    databases.close()
