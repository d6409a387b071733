"""Who asks: what is remembered, for how long, and how often somebody may be wrong."""

from __future__ import annotations

import contextlib
import sqlite3
import time

import pytest
import sqlalchemy as sa

from seamark.server import failures
from seamark.server.access import NOBODY, Identity
from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.logins import Logins, Throttle, load_authentication
from seamark.server.accounts.tables import is_token, migrate, new_token
from seamark.server.databases import open_databases
from seamark.server.failures import Refusal, later, refusal_of

S = 1_000_000_000


@pytest.fixture
def accounts(account_url, clock):
    with contextlib.closing(open_databases(account_url)) as databases:
        migrate(databases.account)
        yield Accounts(databases.account, clock, keep_s=0)


@pytest.fixture
def logins(accounts, clock):
    return Logins(accounts, None, clock, clock)


def bearing(token):
    return {"authorization": f"Bearer {token}"}


def status_of(logins, headers, address="1.1.1.1"):
    try:
        logins.identify(headers, address)
    except Refusal as refusal:
        return refusal.status_code
    return 200


def test_identity_comes_from_a_header_or_a_plugin(accounts, logins, clock):
    """The usual header, our own where a proxy takes that one, or what a lab has installed."""
    token = accounts.first_admin().secret
    for headers in (
        bearing(token),
        {"authorization": f"bearer  {token} "},
        {"x-seamark-token": token},
    ):
        assert logins.identify(headers, "").name == "admin"
    for headers in ({}, {"authorization": "Basic abc"}, {"authorization": "Bearer"}):
        assert logins.identify(headers, "") == NOBODY
    for text in ("x", "seamark_", "é" * 51, "\udcff" * 9, "seamark_" + "a" * 44):
        assert not is_token(text)
        assert status_of(logins, bearing(text)) == 401, text

    def deciding(headers, address):
        if "x-remote-user" in headers:
            return headers["x-remote-user"]
        return Identity("guest", roles={}) if address == "10.0.0.9" else None

    logins = Logins(accounts, deciding, clock, clock)
    assert logins.identify({"X-Remote-User": "admin"}, "").admin
    assert logins.identify({}, "10.0.0.9").name == "guest"
    assert logins.identify(bearing(token), "").name == "admin"
    assert status_of(logins, {"X-Remote-User": "nobody-here"}) == 401
    with pytest.raises(ValueError, match="no installed package provides 'ldap'"):
        load_authentication("ldap")


def test_token_that_ended_is_refused_within_two_seconds(account_url, logins, accounts, clock):
    """At once where it was revoked or has expired."""
    first, second = accounts.first_admin(), accounts.create_token("admin", by="admin")
    ends = accounts.create_token("admin", by="admin", expires_ns=clock.now + S)
    accounts.add_user("alice")
    alice = accounts.create_token("alice", by="admin")
    for token in (first, second, ends, alice):
        assert status_of(logins, bearing(token.secret)) == 200
        assert accounts.token(token.prefix).used_ns == clock.now
    databases = open_databases(account_url)
    elsewhere = Accounts(databases.account, clock)
    elsewhere.revoke(first.prefix)
    elsewhere.set_user("alice", disabled=True)
    clock.now += S
    with pytest.raises(Refusal, match="has expired"):
        logins.identify(bearing(ends.secret), "")
    assert status_of(logins, bearing(first.secret)) == 200
    clock.now += S
    for token in (first, alice):
        assert status_of(logins, bearing(token.secret)) == 401
    elsewhere.set_user("alice", disabled=False)
    databases.close()
    assert status_of(logins, bearing(alice.secret)) == 200
    assert status_of(logins, bearing(second.secret)) == 200
    accounts.revoke(second.prefix)
    assert status_of(logins, bearing(second.secret)) == 401


def test_who_guesses_has_to_wait_and_others_do_not(logins, accounts, clock):
    """By address, and by the beginning of a token, which many know; a good one always passes."""
    made = accounts.first_admin()
    answers = [status_of(logins, bearing(new_token().secret)) for _ in range(30)]
    assert answers == [401] * 20 + [429] * 10
    clock.now += 2 * S  # what is remembered is looked up again
    assert status_of(logins, bearing(made.secret)) == 200
    assert status_of(logins, bearing(new_token().secret), "2.2.2.2") == 401
    with pytest.raises(Refusal) as refused:
        logins.identify(bearing(new_token().secret), "1.1.1.1")
    clock.now += int(refused.value.headers["Retry-After"]) * S
    assert status_of(logins, bearing(new_token().secret)) == 401
    for guessing, expected in (
        (logins, [401] * 10 + [429] * 5),
        (Logins(accounts, processes=64), [401, 429, 429]),  # each of many allows less
    ):
        answers = [
            status_of(guessing, bearing(made.prefix + new_token().secret[16:]), f"10.0.0.{at}")
            for at in range(len(expected))
        ]
        assert answers == expected
        assert status_of(guessing, bearing(made.secret), "10.0.0.1") == 200
    throttle = Throttle(2, 1, 100, clock)
    for number in range(10_000):
        throttle.failed(str(number))
    assert len(throttle._ends_ns) == 100


def test_error_of_a_database_is_not_shown(caplog, monkeypatch):
    monkeypatch.setattr(failures, "_logged_kinds", {})
    reason = sqlite3.OperationalError("no such table: x\nLINE 1: SELECT 'secret'")
    refusal = refusal_of(sa.exc.OperationalError("SELECT secret", {"a": "secret"}, reason))
    assert (refusal.status_code, refusal.error) == (503, "database")
    assert "no such table: x" in caplog.text
    assert "secret" not in caplog.text + str(refusal.detail)


def test_repeated_refusals_are_logged_once_a_minute(monkeypatch, caplog, logins, accounts):
    now = [1000.0]
    monkeypatch.setattr(failures, "_logged_kinds", {})
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for _ in range(3):
        refusal_of(later("busy", "too many"))
        refusal_of(Refusal(429, "too-many", "wait"))
    assert caplog.messages == ["refused (503): too many", "refused (429): wait"]
    now[0] += 60
    refusal_of(later("busy", "too many"))
    assert caplog.messages[2:] == ["refused (503): too many (and 2 times since the last line)"]
    made = accounts.first_admin()
    accounts.revoke(made.prefix)
    for secret in (made.secret, "seamark_" + "x" * 52, made.secret):
        assert status_of(logins, bearing(secret), "192.0.2.1") == 401
    assert len(caplog.messages[3:]) == 2
    assert all(" from 192.0.2.1: " in line for line in caplog.messages[3:])
    assert made.secret not in caplog.text
