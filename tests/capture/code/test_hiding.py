"""Source code is kept without secrets, to be read and to be run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import seamark
from seamark.capture.code.hiding import hide_in_code
from seamark.capture.secrets import Secrets, more_of

SECRETS = Secrets()
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nplanted\n-----END RSA PRIVATE KEY-----"
KEYS = [
    KEY,
    "---- BEGIN SSH2 PRIVATE KEY ----\nMIIEpAIBAAKCAQEA\nplanted\n---- END SSH2 PRIVATE KEY ----",
    "PuTTY-User-Key-File-2: ssh-rsa\nMIIEpAIBAAKCAQEA\nplanted\nPrivate-MAC: 0a1b2c",
]


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ('API_KEY = "planted"', 'API_KEY = "***"'),
        ('API_KEY: Optional[str] = "planted"', 'API_KEY: Optional[str] = "***"'),
        ("self.db_password=r'planted'", "self.db_password=r'***'"),
        ('cfg = {"password": "planted", "lr": 3}', 'cfg = {"password": "***", "lr": 3}'),
        ('os.environ["WANDB_API_KEY"] = "planted"', 'os.environ["WANDB_API_KEY"] = "***"'),
        ('os.environ.get("HF_TOKEN", "planted")', 'os.environ.get("HF_TOKEN", "***")'),
        ('def f(password: str = "planted"):', 'def f(password: str = "***"):'),
        ('token = (\n    "plan"\n    "ted"\n)', 'token = (\n    "***"\n    "***"\n)'),
        ('if password == "planted":', 'if password == "***":'),
        ('{"Authorization": "Bearer planted1"}', '{"Authorization": "Bearer ***"}'),
        ("curl = \"-H 'X-Api-Key: planted'\"", "curl = \"-H 'X-Api-Key: ***'\""),
        ('url = "https://me:planted@host/x"', 'url = "https://***@host/x"'),
        ("%env SOME_TOKEN=planted", "%env SOME_TOKEN=***"),
        ("# token = 'planted'", "# token = '***'"),
    ],
)
def test_literals_that_look_like_secrets_are_hidden(code, kept):
    """By name and by shape, wherever a name and a literal may meet."""
    assert hide_in_code(code, SECRETS, "train.py") == kept


@pytest.mark.parametrize(
    "code",
    [
        "token = tokenizer.encode(text)",
        "self.digests[token] = (key, record)",
        'password = os.environ["PASSWORD"]',
        'token = f"{user}"',
        'headers = {"Authorization": f"Bearer {token}"}',
        'WORDS = {"password", "token", "key"}',
        "num_tokens: int = 512",
        'pad_token = "<pad>"',
        'password = ""',
        'parser.add_argument("--token", help="of the server")',
        "secrets=False",
    ],
)
def test_expressions_and_words_stay_as_they_are(code):
    assert hide_in_code(code, SECRETS, "train.py") == code


@pytest.mark.parametrize("before", [0, 16_300])
@pytest.mark.parametrize("key", KEYS, ids=["PEM", "SSH2", "PuTTY"])
def test_a_key_of_several_lines_is_hidden_line_by_line(key, before):
    """Wherever it stands in the pieces that are searched, and whatever tool wrote it."""
    above = "".join(f"x{number} = {number}\n" for number in range(before // 10))
    text = f'{above}KEY = """\n{key}\n"""\ny = 1\n'
    kept = hide_in_code(text, SECRETS, "train.py")
    assert kept == f'{above}KEY = """\n***\n***\n***\n***\n"""\ny = 1\n'


@pytest.mark.parametrize("key", KEYS, ids=["PEM", "SSH2", "PuTTY"])
@pytest.mark.parametrize("name", ["train.py", "key.txt"])
def test_a_long_key_is_hidden_whole(key, name):
    """Where the text before it would have it searched in two pieces."""
    above = "".join(f"x{number:04} = {number:04}\n" for number in range(1_230))
    long_key = key.replace("planted", "planted words\n" * 60)
    text = f'{above}KEY = """\n{long_key}\n"""\ny = 1\n'
    kept = hide_in_code(text, SECRETS, name)
    assert "planted" not in kept
    assert kept.endswith("y = 1\n")


def test_files_that_are_no_code_are_searched_as_values_are():
    text = "db:\n  password: planted\n  port: 1\nDB_TOKEN=planted\n"
    assert "planted" not in hide_in_code(text, SECRETS, "settings.yaml")
    assert hide_in_code(text, SECRETS, "train.py") == text


def test_what_a_person_names_and_known_values_are_hidden_everywhere(monkeypatch):
    """Names, expressions, variables, the token; without masking, only the token."""
    monkeypatch.setenv("SOME_PASSWORD", "planted-variable")
    text = 'patient_id = "planted"\nprint("planted-variable", "acme-planted", "planted-token")\n'
    secrets = Secrets(known=("planted-token",), more=more_of(["patient_id", "acme-[a-z]+"]))
    assert "planted" not in hide_in_code(text, secrets, "train.py")
    plain = Secrets(masked=False, known=("planted-token",))
    assert hide_in_code(text, plain, "train.py") == text.replace("planted-token", "***")


@pytest.mark.once
@pytest.mark.thorough
def test_numbers_of_lines_stay_whatever_is_hidden():
    """So tracebacks and patches fit what is kept; of our own source next to nothing changes."""
    changed = 0
    for path in Path(seamark.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        kept = hide_in_code(text, SECRETS, path.name)
        assert kept.count("\n") == text.count("\n")
        changed += sum(a != b for a, b in zip(text.split("\n"), kept.split("\n"), strict=True))
    assert changed < 60


@pytest.mark.parametrize("text", ["", "\n", "\r\n\x0c\x85\u2028a\r", "x" * 300_000, "\udcff\n"])
def test_odd_texts_stay_as_long_as_they_are(text):
    """A line that nobody wrote is left out as a whole."""
    kept = hide_in_code(text, SECRETS, "train.py")
    assert kept == ("***" if len(text) > 1000 else text)


def in_notebook(code):
    lines = ["import os\n", *(f"{line}\n" for line in code.split("\n")), "x = 1"]
    return json.dumps({"cells": [{"source": lines}]}, indent=1)


@pytest.mark.parametrize(
    "code",
    [
        'os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "planted")',
        'token: str = """planted"""',
        'creds = dict(\n    password="planted"\n)',
        f'"""\n{KEY}\n"""',
    ],
)
def test_cells_in_the_file_of_a_notebook_are_searched_as_code(code):
    hidden = hide_in_code(in_notebook(code), SECRETS, "a.ipynb")
    assert "planted" not in hidden
    assert hidden.count("\n") == in_notebook(code).count("\n")
    assert json.loads(hidden)["cells"][0]["source"][-1] == "x = 1"


@pytest.mark.parametrize("code", ["token = tokenizer.encode(text)", 'key = os.environ["API_KEY"]'])
def test_expressions_in_the_file_of_a_notebook_stay_as_they_are(code):
    assert hide_in_code(in_notebook(code), SECRETS, "a.ipynb") == in_notebook(code)
