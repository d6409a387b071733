"""Secrets are hidden, and what only looks like one is not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import marked

from seamark.capture.secrets import masking, shapes
from seamark.capture.secrets.masking import (
    MASK,
    bare_url,
    mask_arguments,
    mask_code,
    mask_file,
    mask_secrets,
    mask_value,
)
from seamark.capture.secrets.shapes import secret_values

SECRET = "«s3cr3t-Val»"


NAMED = [
    *("api-key", "api_key", "apiKey", "APIKEY", "trainer.logger.init_args.api_key", "token"),
    *("hf-token", "authtoken", "access-token-value", "key", "wandb-key", "my-key", "secret"),
    *("client-secret", "password", "db-passwd", "PGPASSWORD", "passphrase", "pass", "pwd"),
    *("credentials", "auth", "dbpass", "pat", "signature", "authorization", "auth-header"),
    *("aws-access-key-id", "AWS_SECRET_ACCESS_KEY"),
]


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--" + name, SECRET, f"--{name}={SECRET}"] for name in NAMED),
        *([before + "=" + SECRET] for before in ("-api_key", "api_key", "+logger.api_key")),
        *([before + "=" + SECRET] for before in ("++a.token", "a.b.password", "-Dpassword")),
        *(["-H", f"{header} {SECRET}"] for header in ("Authorization: Bearer", "X-Api-Key:")),
        ["-H", f"Authorization: Basic {SECRET}"],
        ["-H", "Cookie: «s=1; id=s3cr3t-Val»"],
        ["--session", *["«Zk3vQ9xT1bLm8RwY5cHn2JpD7sFg4KuA»"] * 2],  # random
        ["--tokens", SECRET, SECRET],
        ["--password", "«-s3cr3t-Val»"],
        ["password=«a,b&c s3cr3t-Val»"],
        ["-p", SECRET],
        ["-p" + SECRET],
        ["-P", SECRET],
        *([option, "bob:" + SECRET] for option in ("--user", "-u")),
        ["--dsn", "postgres://«u:s3cr3t-Val»@host/db"],
        ["postgres+psycopg://«u:s3cr3t-Val/x»@host/db"],
        ["redis://«:s3cr3t-Val»@host"],
        [f"https://{SECRET}@host/x"],
        [f"https://host/x?token={SECRET}&page=1"],
        ["--config", f'{{"logger": {{"api_key": "{SECRET}", "lr": 0.1}}}}'],
        [f"db={{user:bob,password:{SECRET}}}"],
        [f"--hparams=lr=0.1,token={SECRET}"],
        [f"logger={{api_keys:[{SECRET},{SECRET}]}}"],
        [f'--json={{\\"api_key\\": \\"{SECRET}\\"}}'],
        ["--epochs", "3", "--lr=0.1", "data.path=/data/Users/Bob1/projects/imagenet"],
        ["--max-tokens", "512", "--num_tokens=1e6", "model.max_tokens=4096"],
        ["--pad-token", "<pad>", "--eos_token_id", "2"],
        ["--tokenizer", "bert-base-cased", "--tokenizer.path=tok.json"],
        ["--image-key", "image", "--label_key=label"],
        ["--author", "Bob", "--use-auth", "false"],
        ["--name", "ResNet50-Adam-lr0-seed1-CIFAR10-baseline"],
        ["--commit", "d6b1bd4f9e5dd3e6ddd8bbd2a06a2b7a3c4d5e6f"],
        ["-p", "8080", "-p0.5", "--port=80"],
        ["-p", "no:cacheprovider", "-pno:randomly"],
        ["--user", "1000:1000", "--user=bob"],
        ["monitor=val/loss", "trainer.precision=bf16-mixed", "+experiment=base", "~callbacks"],
        ["https://example.org/@scope/x", "http://host:8080/a@b", "git@github.com:org/repo.git"],
        ["--password-less", "--token", "--", "sk-learn", "hf_datasets_cache"],
        ["", "-", "--", "=", "--=", "a=", "=b", "-x"],
    ],
    ids=" ".join,
)
def test_secrets_in_arguments_are_hidden_and_nothing_else(arguments):
    pairs = marked(*arguments)
    kept = [kept for _, kept in pairs]
    assert mask_arguments([given for given, _ in pairs]) == kept


@pytest.mark.parametrize(
    ("names", "hidden"),
    [
        ("NEPTUNE_API_TOKEN SEAMARK_API_TOKEN AWS_SECRET_ACCESS_KEY DB_PASSWORD MYSQL_PWD", True),
        ("WANDB_API_KEY", True),
        ("PWD OLDPWD HOME TOKENIZERS_PARALLELISM PASSWORD_STORE_DIR SSH_AUTH_SOCK", False),
    ],
)
def test_value_of_a_secret_variable_is_hidden_in_any_text(names, hidden):
    value = "plain/but hidden"
    for name in names.split():
        text = f"could not log in with <{value}>"
        assert (value not in mask_secrets(text, known=secret_values({name: value}))) is hidden
        assert (
            value not in mask_arguments(["--x", value], known=secret_values({name: value}))[1]
        ) is hidden


def test_known_values_are_hidden_and_plain_values_of_variables_are_not():
    """A given token may have no shape; USE_TOKEN=true must not turn every "true" into stars."""
    environment = {"USE_TOKEN": "true", "API_KEY": "abc", "N_TOKEN": "100000000", "TOKEN": ""}
    given = {"known": [*secret_values(environment), "my-token", ""]}
    assert mask_secrets("true abc 100000000 my-token", **given) == "true abc 100000000 ***"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://user:pw@github.com/org/repo.git", "https://github.com/org/repo.git"),
        ("https://oauth2:tok@gitlab.com/a/b.git?private_token=x#y", "https://gitlab.com/a/b.git"),
        ("HTTPS://u:p@ss@host/x", "HTTPS://host/x"),
        ("ssh://git@host:22/x", "ssh://host:22/x"),
        ("git@github.com:org/repo.git", "github.com:org/repo.git"),
        ("user:pw@host:org/repo", "host:org/repo"),
        ("u:p@ss@host:path", "host:path"),
        ("git@[::1]:repo", "[::1]:repo"),
        ("file://user:pw@host/srv/repo.git", "file://host/srv/repo.git"),
        ("ext::https://tok@host/x", "ext::https://host/x"),
        ("/srv/git/a@b.git", "/srv/git/a@b.git"),
        ("../repo", "../repo"),
        ("https://host/@scope/repo", "https://host/@scope/repo"),
        ("", ""),
    ],
)
def test_address_of_git_loses_user_password_and_query(given, kept):
    assert bare_url(given) == kept


@given(st.text(max_size=300))
def test_masking_takes_any_text(text):
    once = mask_secrets(text)
    assert isinstance(once, str)
    mask_secrets(text)
    bare_url(text)
    assert len(mask_arguments([text, text])) == 2


STANDS_FOR_NONE = re.compile(r"(null|none|true|false)\Z|[$*<{%]", re.IGNORECASE)


@given(
    st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'\\"), min_size=1
    )
)
def test_no_password_survives_its_name(password):
    if password in "password=***--" or MASK in password or STANDS_FOR_NONE.match(password):
        return
    assert mask_arguments(["--password=" + password]) == ["--password=" + MASK]
    assert mask_secrets(f"password='{password}'") == f"password='{MASK}'"


CONFIGURATIONS = [
    ("a.yaml", "secrets:\n  openai: «X»\n  more:\n    deep: «X»\nlr: 1\n"),
    ("a.yaml", "credentials:\n  - «X»\n  - «X»\nlr: 1\n"),
    ("a.yaml", "credentials:\n- «X»\n- «X»\nlr: 1\n"),
    ("a.yaml", "passwords: [«X», «X»]\n"),
    ("a.yaml", "tokens: {a: «X», b: '«X»'}\n"),
    ("a.yaml", "token: |\n  «X»\n  «X»\nlr: 1\n"),
    ("a.yaml", "- name: DB_PASSWORD\n  value: «X»\n- name: A\n  value: b\n"),
    ("a.yaml", 'password: "«X»\n  «X»"\nlr: 1\n'),
    ("a.json", '{\n  "secrets": {\n    "openai": "«X»",\n    "b": ["«X»"]\n  }\n}\n'),
    ("a.json", '{\n  "api_keys": [\n    "«X»",\n    "«X»"\n  ]\n}\n'),
    ("a.toml", '[a.secrets]\nopenai = "«X»"\n\n[b]\nc = "d"\n'),
    ("a.toml", 'tokens = ["«X»"]\n'),
    ("a.yaml", "password:\n  «X»\nlr: 1\n"),
    (".pgpass", "host:5432:db:me:«X»\n"),
    (".netrc", "machine h\n  login me\n  password «X»\n"),
    ("a.config", '<add key="ApiKey" value="«X»"/>\n'),
    ("Dockerfile", "ENV API_KEY «X»\nARG TOKEN=«X»\n"),
    ("Makefile", "TOKEN := «X»\nPASSWORD ?= «X»\nexport TOKEN = «X»\n"),
    ("a.properties", "my.api.key=«X»\nmy.password = «X»\n"),
    ("a.sh", "curl -u bob:«X» https://h\ncurl -s --user 'bob:«X»' https://h\n"),
    ("a.sh", "mysql -u me -p«X» db\n"),
    ("a.sh", "sshpass -p «X» ssh h\nsshpass -p '«X»' ssh h\n"),
    ("a.sh", "docker login -u me -p «X»\n"),
    ("a.md", "    api_key: «X»\n"),
    ("a.yaml", "client_secret: «a b X»\n"),
    ("a.yaml", "secrets:\n  a: «X==»\n  b: «X=X»\n  c: '«X=»'\nlr: 1\n"),
    (".env", "TOKEN=«a X»\nexport PASSWORD=«a'X b»\n"),
    ("a.properties", "db.password=«two X»\n"),
    ("a.xml", "<password>«two X»</password>\n"),
]


@pytest.mark.parametrize(("name", "text"), CONFIGURATIONS)
def test_secrets_in_configurations_are_hidden(name, text):
    ((given, kept),) = marked(text.replace("X", "Xq9-planted7"))
    assert mask_file(given, name=name) == kept
    assert mask_file(kept, name=name) == kept


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "lr: 1\nmodel:\n  name: resnet\n  layers: [a, b]\ntokenizer: bert\n"),
        ("a.yaml", "secrets:\n  user: bob\n  host: h\nlr: 1\nname: x\nvalue: y\n"),
        ("a.yaml", "token: ${TOKEN}\napi_key: <key>\nuse_token: true\n"),
        ("a.yaml", "env:\n- name: TOKEN\n  valueFrom:\n    secretKeyRef:\n      name: a\n"),
        ("a.md", "token: the one that the server has given to you\n"),
        ("a.sh", "docker run -u 1000:1000 -p 80:80 x\nmkdir -p a/b\n"),
        ("a.sh", "TOKEN=${OTHER}\n"),
        ("Makefile", "all: token.txt\n\techo $(TOKEN)\n"),
        ("a.xml", "<name>x</name><version>1</version>\n"),
        ("a.yaml", "- value: x\n  name: DB_PASSWORD\n"),
        ("a.txt", "torch==2.1\nhttps://host:80/x\n"),
    ],
)
def test_configurations_without_secrets_stay(name, text):
    assert mask_file(text, name=name) == text


PIECES = [
    *("a", "sk-", "key=", "'", "a://", "u:p@", "token='", " ", "-", "eyJ", "\\", "\\a", "@", "a@["),
    *("token=***", "token=*** ", "auth=(", "auth=true,", "key=(", "key='", "token=[", "SG.a-"),
    *('token="\\"', 'token=\\"', "pass='1' ", "authorization: ", "cookie ", "cookie:\n", "bearer "),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "glab-", "a_", "a=b:", "--key ", "--token '"),
    *("--key ',", "a.b.c-d ", "sig=", "?sig=", "ghp_", "xoxb-", 'key="a\\', 'pw:"""', "{'token':"),
    *("\npassword = x ", "\npassword: ", "{password:", ",token:", "'key: ", '"a\\"', "{{a", "${"),
    *("--api-key=", "--token 'a'", "token=&a=", ",a", "authorization: basic ", "token a1B"),
    *("'", '"', '"""', "\\'", "'\\", "`", "#", "/*", "//", "'a", 'f"{', "{", "(", "[", "x=(", ")"),
    *("token=", "token='", "token=[", "token=str(", "tokens=('a',", "or '", "x or 'a'", "token:x="),
    *("'token':", "'token',", "get('token',", "secrets={'a':", "'--token',", "default='a' ", "a "),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "'a'\n", "'\\n", "# a: b c d\n"),
    *("secrets:\n", " secrets:\n", "- a\n", "token: |\n", "name: token\n", "value: a\n", "<token>"),
    *("curl -u a", "curl ", "mysql -", "mysql ", "-p a", "a:", "a:\n", "token: [", "token: {a,"),
    *("login a password ", "[secrets]\n", "key='token' value='", "ENV token a\n", "\t", "%s"),
    *("!a\n", "# define token ", "token = a b\n", "a.b.", "secrets: [a, ", "secrets: {a: {"),
    *("\n" + " " * 40, "token:f(x,{", "key=aB1", "token: ", "\ntoken: x", "basic 1", "1:AA"),
    *('token=\\"', "key.", "key=key=", "https://discord.com/api/webhooks/"),
]
LINEAR = """
import json, sys, time
from functools import partial

from seamark.capture.code.masking import hide_in_code
from seamark.capture.secrets import Secrets, masking

def cpu_s(mask, piece, size):
    text = piece * (size // len(piece))
    start = time.process_time()
    mask(text)
    return time.process_time() - start

KINDS = [
    masking.mask_secrets, masking.mask_value,
    masking.bare_url, masking.mask_file, partial(masking.mask_file, name=".pgpass"),
    masking.mask_code, partial(masking.mask_code, name="a.js"),
    partial(hide_in_code, secrets=Secrets(), name="a.ipynb"),
]

def grows_too_fast(mask, piece):
    return cpu_s(mask, piece, 1 << 16) > 24 * (cpu_s(mask, piece, 1 << 13) + 0.002)

for at, mask in enumerate(KINDS):
    for piece in json.load(open(sys.argv[1])):
        if all(grows_too_fast(mask, piece) for _ in range(4)):
            print(at, repr(piece))
print("done")
"""


@pytest.mark.thorough
def test_time_grows_with_the_length_of_a_text_and_no_faster(tmp_path):
    """Whatever stands in it: a stranger's file, or the message of an error at the end.

    Eight times the text takes eight times as long, and not its square; 24 times leaves room for
    what else the machine does. What doubles with each character never ends, and is killed.
    """
    pieces = tmp_path / "pieces.json"
    pieces.write_text(json.dumps(PIECES))
    command = [sys.executable, "-c", LINEAR, str(pieces)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "done\n"


@pytest.mark.parametrize("end", ["", "x", "\n", " "])
@pytest.mark.parametrize("piece", ["\\a", "\\\\", "\\", "\\'"])
def test_unclosed_quote_with_backslashes_is_read_once(piece, end):
    """Each backslash could be read in two ways once: 40 of them took a minute, 41 took two."""
    text = 'token="' + piece * 200 + end
    assert MASK in mask_secrets(text)
    mask_code(text)


@pytest.mark.once
@pytest.mark.parametrize("piece", ["key=", "token='", "\\"])
def test_huge_text_is_cut(piece):
    """An error that carries a tensor or a page of HTML must not hold up the end of a process."""
    text = piece * (1_000_000 // len(piece))
    assert len(mask_secrets(text)) < 300_000


def hidden_in_full(text):
    """Assert that what `mask_value` returns is the same if nothing is ruled out beforehand."""
    with (
        mock.patch.object(shapes, "may_hold_shape", return_value=True),
        mock.patch.object(masking, "may_name", return_value=True),
    ):
        in_full = mask_value(text)
    assert mask_value(text) == in_full


WORDS = [
    *("token", "password", "api_key", "lr", "Bearer", "TO\u212aEN", "ba\u017fic", "d\u0131gest"),
    *("authorization", "Basic", "APIKEY", "a1b2c3d4e5f6a7b8c9", "Zm9vYmFyMTIz", "0123456789"),
    *("https://", "user:pass@host", "sig", "?x-amz-signature", "hooks.slack.com/", "---", "--"),
    *(":", "=", ":=", "\t", "\n", '"', "'", "'", "\\", ",", "-", "#", "&", ".", "{", "}"),
    *("", " ", "  ", ": ", '"', "'", '": "', "=", "A" * 20, "\u212a", "\xe9", "\xa0", "\r"),
]
PARTS = st.sampled_from([*shapes._SHAPE_SUBSTRINGS, *WORDS])


@given(st.lists(PARTS, max_size=9).map("".join))
@settings(max_examples=100, deadline=None)
@pytest.mark.once
def test_short_cuts_miss_nothing(text):
    hidden_in_full(text)
