"""Of source code literals and comments are changed, and nothing else."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

import pytest

from seamark.capture.code.hiding import hide_in_code
from seamark.capture.secrets import Secrets
from seamark.capture.secrets.masking import mask_code


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
    ],
)
def test_code_stays_as_it_is(code):
    """A quote that closes a literal is none that opens another one."""
    assert mask_code(code) == code


@pytest.mark.parametrize(
    "code",
    [
        'CONF = """[default]\naws_secret_access_key = X\nregion = e\n"""',
        'CONF = """\nsecrets:\n  openai: X\n  user: bob\n"""',
        "CONF = 'aws_secret_access_key = X\\nregion = e'",
        'password = str("X")',
        'password = SecretStr("X")',
        'password: str = Field(default="X")',
        'add_argument("--token", default="X")',
        'add_argument("-t", "--token", type=f("a"), help="of it", default="X")',
        'tokens = ["X1y2z3a4b5"]',
        'API_KEYS = ("X", "X")',
        'secrets = {"openai": "X", "user": "bob"}',
        'secrets = dict(openai="X")',
        'password = os.environ.get("P") or "X"',
        'password = os.environ["P"] if p else "X"',
        'const token = process.env.T || "X"',
        "# password: X",
        "x = 1  # token = X",
        'os.system("mysql -u me -pX db")',
        'os.system("curl -u bob:X https://h")',
        'log(f"https://me:X@{host}/{path}")',
        'headers = f"token=X&page={page}"',
        'token = "X" "X"',
        '>>> login(token="X")',
        '"""Do.\n\n>>> login(token="X")\n"""',
        'os.getenv(\n    "API_KEY",  # note\n    "X",\n)',
        'token = (\n    os.environ.get("P")\n    or "X"\n)',
        'add_argument(\n    "--token",  # note\n    help="of it",\n    default="X",\n)',
        'password: str = Field(\n    default="X",\n)',
        'token = """\nX\n"""',
        'API_KEYS = [\n"X",\n"X",\n]',
        'token = None if x else "X"',
        'if x: token = "X"',
        'setattr(o, "token", "X")',
        'token = ask() or \\\n    "X"',
        'a = {\n    "token":\n        "X",\n}',
        'os.environ.get("TOKEN", ["X"])',
        'secrets = {"a": {"b": "X"}}',
    ],
)
def test_secrets_in_literals_and_comments_are_hidden(code):
    """By name, within a text, in a list, as a default."""
    secret = "Xq9-planted7"
    code = code.replace("X1y2z3a4b5", "X").replace("X", secret)
    assert secret not in mask_code(code)
    assert "***" in mask_code(code)
    assert mask_code(code).count("\n") == code.count("\n")


@pytest.mark.parametrize(
    "code",
    ['#define API_KEY "X"', 'token = a ? "X" : "X"', 'token?: string = "X"', "password := `X`"],
)
def test_secrets_in_code_of_c_are_hidden(code):
    """And of languages that write literals as C does."""
    assert "X" not in mask_code(code, name="a.ts")


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"),
        ("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", "---- END SSH2 ENCRYPTED PRIVATE KEY ----"),
        ("PuTTY-User-Key-File-2: ssh-rsa", "Private-MAC: 0a1b2c"),
    ],
)
def test_a_key_of_several_literals_is_hidden(begin, end):
    code = f'key = (\n    "{begin}\\n"\n    "planted\\n"\n    "{end}\\n"\n)\nrest = "stays"\n'
    hidden = mask_code(code)
    assert "planted" not in hidden
    assert hidden.endswith('rest = "stays"\n')
    assert _outline(hidden) == _outline(code)


def _outline(code: str) -> str:
    """Return what code does, whatever its literals hold."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            node.value = ""
        elif isinstance(node, ast.JoinedStr):
            node.values = []
    return ast.dump(tree)


def _some_sources() -> list[Path]:
    """Return files of this project, of Python and of a package, the same ones each time."""
    chosen = random.Random(7)
    library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    library += sorted(Path(sysconfig.get_path("stdlib"), "http").glob("*.py"))
    packages = sorted(Path(pytest.__file__).parents[1].glob("*/*.py"))
    own = sorted(Path(__file__).parents[3].glob("src/**/*.py"))
    chosen_of_each = [chosen.sample(each, 60) for each in (own, library, packages)]
    return [Path(__file__), *(path for row in zip(*chosen_of_each, strict=True) for path in row)]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if number < 46 else pytest.mark.slow, id=path.name)
        for number, path in enumerate(_some_sources())
    ],
)
def test_code_that_was_hidden_in_still_does_the_same(path):
    """What is no literal is never changed; lines stay where they are."""
    try:
        code = path.read_text("utf-8")
        outline = _outline(code)
    except (UnicodeDecodeError, SyntaxError):
        pytest.skip("not Python of this version")
    hidden = hide_in_code(code, Secrets(), path.name)
    assert hidden.count("\n") == code.count("\n")
    assert _outline(hidden) == outline


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
def test_a_secret_is_hidden_far_from_its_brackets(code):
    assert "planted" not in hide_in_code(code, Secrets(), "a.py")
