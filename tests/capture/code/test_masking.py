"""Source code is kept without secrets, to be read and to be run again."""

from __future__ import annotations

import ast
import json
import random
import sysconfig
from pathlib import Path

import pytest
from marked import marked

import seamark
from seamark.capture.code.masking import hide_in_code
from seamark.capture.secrets import Secrets, user_rules

SECRETS = Secrets()
KEYS = {
    "PEM": ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"),
    "SSH2": ("---- BEGIN SSH2 PRIVATE KEY ----", "---- END SSH2 PRIVATE KEY ----"),
    "PuTTY": ("PuTTY-User-Key-File-2: ssh-rsa", "Private-MAC: 0a1b2c"),
}
every_key = pytest.mark.parametrize(("begin", "end"), KEYS.values(), ids=KEYS)


def hidden(code: str, name: str = "train.py") -> str:
    return hide_in_code(code, SECRETS, name)


HIDDEN = [
    'API_KEY = "X"',
    'API_KEY: Optional[str] = "X"',
    "self.db_password=r'X'",
    'cfg = {"password": "X", "lr": 3}',
    'os.environ["WANDB_API_KEY"] = "X"',
    'os.environ.get("HF_TOKEN", "X")',
    'def f(password: str = "X"):',
    'if password == "X":',
    '{"Authorization": "Bearer X"}',
    "%env SOME_TOKEN=X",
    "# token = 'X'",
    'CONF = """[default]\naws_secret_access_key = X\nregion = e\n"""',
    'CONF = """\nsecrets:\n  openai: X\n  user: bob\n"""',
    "CONF = 'aws_secret_access_key = X\\nregion = e'",
    'password = str("X")',
    'add_argument("-t", "--token", type=f("a"), help="of it", default="X")',
    'secrets = {"openai": "X", "user": "bob"}',
    'secrets = dict(openai="X")',
    'password = os.environ.get("P") or "X"',
    'password = os.environ["P"] if p else "X"',
    'const token = process.env.T || "X"',
    "# password: X",
    'os.system("mysql -u me -pX db")',
    'os.system("curl -u bob:X https://h")',
    'token = "X" "X"',
    '"""Do.\n\n>>> login(token="X")\n"""',
    'os.getenv(\n    "API_KEY",  # note\n    "X",\n)',
    'token = (\n    os.environ.get("P")\n    or "X"\n)',
    'add_argument(\n    "--token",  # note\n    help="of it",\n    default="X",\n)',
    'password: str = Field(\n    default="X",\n)',
    'token = """\nX\n"""',
    'API_KEYS = [\n"X",\n"X",\n]',
    'if x: token = "X"',
    'setattr(o, "token", "X")',
    'token = ask() or \\\n    "X"',
    'a = {\n    "token":\n        "X",\n}',
    'os.environ.get("TOKEN", ["X"])',
    'secrets = {"a": {"b": "X"}}',
    'token = (\n    "«plan»"\n    "«ted»"\n)',
    "curl = \"-H 'x-api-key: «planted»'\"",
    'url = "https://«me:planted»@host/x"',
    'log(f"https://«me:a1b2»@{host}/{path}")',
    'headers = f"token=«a1b2&page=»{page}"',
    'tokens = ["«Xq9-planted7»"]',
    'token =  # of production\n"X"',
    '    token="X"\n    "X",\n    name="a")',
    'credentials = "«AKIAIOSFODNN7EXAMPLE:Xq9-planted7»"',
]


@pytest.mark.parametrize("secret", ["planted", "Xq9-planted7"])
@pytest.mark.parametrize("code", HIDDEN)
def test_secrets_in_literals_and_comments_are_hidden_and_nothing_else(code, secret):
    """Where an ``X`` stands, or what stands in «»."""
    ((given, kept),) = marked(code if "«" in code else code.replace("X", f"«{secret}»"))
    assert hidden(given) == kept


@pytest.mark.parametrize(
    ("code", "kept"),
    marked(
        '#define API_KEY "«X»"',
        'token = a ? "«X»" : "«Y»"',
        'token?: string = "«X»"',
        "password := `«X»`",
        'const token = // of production\n  "«X»"',
        'const token = a || // of production\n  "«X»"',
    ),
)
def test_secrets_in_code_of_languages_like_c_are_hidden(code, kept):
    assert hidden(code, "a.ts") == kept


@pytest.mark.parametrize(
    "code",
    [
        'print("token:", x, "done")',
        'init(api_token="ANONYMOUS", api_key="YOUR_API_TOKEN", token="your-token-here")',
        'x = "password: " + name + " ok"',
        'raise ValueError("Unknown token:"+t+"!")',
        'name=input("Password: ") if 0 else "x"',
        "d = {'a': f(token='')}; print('key', \"token='\", x, \"'\")",
        'f"password={password}"',
        'f"{user}:{password}@{host}"',
        'print("password=%s" % password, "token={}".format(x))',
        "x = (y // 3, 'token:', z)",
        'w = "token=" "" + x',
        "x = (1\n  % dict(token=tok))",
        "v = a;sig=sign(token)",
        'if line.startswith("-----BEGIN PRIVATE KEY"):\n    x = token\n',
        "tokens = ['<s>', 'hello', 'world', '##ing']",
        'password = getpass("Password: ")',
        'secrets = {"user": "bob", "host": "h"}',
        'def f():\n    """Log in.\n\n    Args:\n        password: The one of the user.\n    """',
        "# token: the one that the server has given",
        'parser.add_argument("--max-tokens", default="12")',
        'parser.add_argument("--token"); parser.add_argument("--x", default="y")',
        "token = tokenizer.encode(text)",
        "self.digests[token] = (key, record)",
        'password = os.environ["PASSWORD"]',
        'token = f"{user}"',
        'headers = {"Authorization": f"Bearer {token}"}',
        'WORDS = {"password", "token", "key"}',
        'pad_token = "<pad>"',
        'password = ""',
        'parser.add_argument("--token", help="of the server")',
        "secrets=False",
    ],
)
def test_expressions_and_words_are_kept(code):
    assert hidden(code) == code
    assert hidden(in_notebook(code), "a.ipynb") == in_notebook(code)


def in_notebook(code):
    lines = ["import os\n", *(f"{line}\n" for line in code.split("\n")), "x = 1"]
    return json.dumps({"cells": [{"source": lines}]}, indent=1)


@pytest.mark.parametrize(
    "code",
    [
        'os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "planted")',
        'token: str = """planted"""',
        'creds = dict(\n    password="planted"\n)',
        '"""\n{}\nplanted\n{}\n"""'.format(*KEYS["PEM"]),
    ],
)
def test_cells_in_the_file_of_a_notebook_are_searched_as_code(code):
    kept = hidden(in_notebook(code), "a.ipynb")
    assert "planted" not in kept
    assert kept.count("\n") == in_notebook(code).count("\n")
    assert json.loads(kept)["cells"][0]["source"][-1] == "x = 1"


@pytest.mark.parametrize("before", [0, 16_300])
@every_key
def test_key_of_several_lines_is_hidden_line_by_line(begin, end, before):
    above = "".join(f"x{number} = {number}\n" for number in range(before // 10))
    text = f'{above}KEY = """\n{begin}\nMIIEpAIBAAKCAQEA\nplanted\n{end}\n"""\ny = 1\n'
    assert hidden(text) == f'{above}KEY = """\n***\n***\n***\n***\n"""\ny = 1\n'


@every_key
@pytest.mark.parametrize("name", ["train.py", "key.txt"])
def test_long_key_is_hidden_whole(begin, end, name):
    """Where the text before it would have it searched in two pieces."""
    above = "".join(f"x{number:04} = {number:04}\n" for number in range(1_230))
    body = "MIIEpAIBAAKCAQEA\n" + "planted words\n" * 60
    kept = hidden(f'{above}KEY = """\n{begin}\n{body}\n{end}\n"""\ny = 1\n', name)
    assert "planted" not in kept
    assert kept.endswith("y = 1\n")


@every_key
def test_key_of_several_literals_is_hidden(begin, end):
    code = f'key = (\n    "{begin}\\n"\n    "planted\\n"\n    "{end}\\n"\n)\nrest = "stays"\n'
    kept = hidden(code)
    assert "planted" not in kept
    assert kept.endswith('rest = "stays"\n')
    assert outline(kept) == outline(code)


def test_key_without_its_end_is_hidden_beyond_an_apostrophe():
    text = "PuTTY-User-Key-File-2: ssh-rsa\nComment: Bob's key\nplanted\n"
    assert hidden(text) == "***\n***\n***\n"


def test_files_that_are_no_code_are_searched_as_values_are():
    text = "db:\n  password: planted\n  port: 1\nDB_TOKEN=planted\n"
    assert "planted" not in hidden(text, "settings.yaml")
    assert hidden(text) == text


def test_named_and_known_values_are_hidden_everywhere(monkeypatch):
    monkeypatch.setenv("SOME_PASSWORD", "planted-variable")
    text = 'patient_id = "planted"\nprint("planted-variable", "acme-planted", "planted-token")\n'
    secrets = Secrets(known=("planted-token",), rules=user_rules(["patient_id", "acme-[a-z]+"]))
    assert "planted" not in hide_in_code(text, secrets, "train.py")
    plain = Secrets(masked=False, known=("planted-token",))
    assert hide_in_code(text, plain, "train.py") == text.replace("planted-token", "***")


@pytest.mark.parametrize("text", ["", "\n", "\r\n\x0c\x85\u2028a\r", "x" * 300_000, "\udcff\n"])
def test_odd_texts_are_kept_and_very_long_lines_left_out(text):
    assert hidden(text) == ("***" if len(text) > 1000 else text)


MANY = ", ".join(f"a{at}" for at in range(150))


@pytest.mark.parametrize(
    "code",
    [
        f"secrets = {{'a': f({MANY}), 'b': 'Xq9plantedZ7k'}}\n",
        f"parser.add_argument('--token', help=f({MANY}), default='Xq9plantedZ7k')\n",
        f"f({MANY}, token='Xq9plantedZ7k')\n",
        f"token = load(lambda: f({MANY}))\nsecret = 'Xq9plantedZ7k'\n",
    ],
)
def test_secret_is_hidden_far_from_its_brackets(code):
    assert "planted" not in hidden(code)


def outline(code: str) -> str:
    """Return what code does, whatever its literals hold."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            node.value = ""
        elif isinstance(node, ast.JoinedStr):
            node.values = []
    return ast.dump(tree)


OWN = sorted(Path(seamark.__file__).parent.rglob("*.py"))


def some_sources() -> list[Path]:
    """Return files of this project, of Python and of a package, the same ones each time."""
    chosen = random.Random(7)
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    library += sorted(Path(sysconfig.get_path("stdlib"), "http").glob("*.py"))
    packages = sorted(Path(pytest.__file__).parents[1].glob("*/*.py"))
    found = [path for each in (OWN, library, packages) for path in chosen.sample(each, 15)]
    return [Path(__file__), *found]


@pytest.mark.parametrize("path", some_sources(), ids=lambda path: path.name)
def test_only_literals_of_code_change_and_lines_stay_where_they_are(path):
    try:
        code = path.read_text("utf-8")
        before = outline(code)
    except (UnicodeDecodeError, SyntaxError):
        pytest.skip("not Python of this version")
    kept = hidden(code, path.name)
    assert kept.count("\n") == code.count("\n")
    assert outline(kept) == before
