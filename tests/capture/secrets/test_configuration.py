"""In a configuration a key hides what stands below it, beside it, and after it."""

from __future__ import annotations

import pytest

from seamark.capture.secrets.masking import mask_file

SECRET = "Xq9-planted7"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "secrets:\n  openai: X\n  more:\n    deep: X\nlr: 1\n"),
        ("a.yaml", "credentials:\n  - X\n  - X\nlr: 1\n"),
        ("a.yaml", "credentials:\n- X\n- X\nlr: 1\n"),
        ("a.yaml", "passwords: [X, X]\n"),
        ("a.yaml", "tokens: {a: X, b: 'X'}\n"),
        ("a.yaml", "token: |\n  X\n  X\nlr: 1\n"),
        ("a.yaml", "- name: DB_PASSWORD\n  value: X\n- name: A\n  value: b\n"),
        ("a.yaml", '- name: "DB_PASSWORD"\n  value: "X"\n'),
        ("a.yaml", "- value: X\n  name: DB_PASSWORD\n"),
        ("a.yaml", 'password: "X\n  X"\nlr: 1\n'),
        ("a.yaml", "client_secret: a b X\n"),
        ("a.yaml", "kind: Secret\nmetadata:\n  name: n\ndata:\n  openai: X\n"),
        ("a.json", '{\n  "secrets": {\n    "openai": "X",\n    "b": ["X"]\n  }\n}\n'),
        ("a.json", '{\n  "api_keys": [\n    "X",\n    "X"\n  ]\n}\n'),
        ("a.toml", '[a.secrets]\nopenai = "X"\n\n[b]\nc = "d"\n'),
        ("a.toml", 'tokens = ["X"]\n'),
        (".netrc", "machine h login me password X\n"),
        (".netrc", "machine h\n  login me\n  password X\n"),
        (".pgpass", "host:5432:db:me:X\n"),
        ("a.xml", "<password>X</password>\n"),
        ("a.config", '<add key="ApiKey" value="X"/>\n'),
        ("Dockerfile", "ENV API_KEY X\nARG TOKEN=X\n"),
        ("Makefile", "TOKEN := X\nPASSWORD ?= X\nexport TOKEN = X\n"),
        ("a.properties", "my.api.key=X\nmy.password = X\n"),
        ("a.sh", "curl -u bob:X https://h\n"),
        ("a.sh", "curl -s --user 'bob:X' https://h\n"),
        ("a.sh", "mysql -u me -pX db\n"),
        ("a.sh", "sshpass -p X ssh h\nsshpass -p 'X' ssh h\n"),
        ("a.sh", "docker login -u me -p X\n"),
        ("a.md", "    api_key: X\n"),
    ],
)
def test_secrets_in_configurations_are_hidden(name, text):
    """In the shapes of the formats that are common."""
    text = text.replace("X", SECRET)
    hidden = mask_file(text, name=name)
    assert SECRET not in hidden
    assert hidden.count("\n") == text.count("\n")
    assert mask_file(hidden, name=name) == hidden


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "lr: 1\nmodel:\n  name: resnet\n  layers: [a, b]\ntokenizer: bert\n"),
        ("a.yaml", "secrets:\n  user: bob\n  host: h\nlr: 1\nname: x\nvalue: y\n"),
        ("a.yaml", "token: ${TOKEN}\napi_key: <key>\nuse_token: true\n"),
        ("a.yaml", "max_tokens: 512\npad_token: <pad>\nspecial_tokens: [a, b]\n"),
        ("a.yaml", "env:\n- name: TOKEN\n  valueFrom:\n    secretKeyRef:\n      name: a\n"),
        ("a.toml", "[tool.x]\nname = 'y'\nkeys = ['a', 'b']\n"),
        ("a.md", "token: the one that the server has given to you\n"),
        ("a.sh", "docker run -u 1000:1000 -p 80:80 x\nmkdir -p a/b\n"),
        ("a.sh", "TOKEN=${OTHER}\n"),
        ("Makefile", "all: token.txt\n\techo $(TOKEN)\n"),
        ("a.xml", "<name>x</name><version>1</version>\n"),
        ("a.txt", "torch==2.1\nhttps://host:80/x\n"),
    ],
)
def test_what_is_no_secret_stays(name, text):
    """Configurations are what runs are compared by."""
    assert mask_file(text, name=name) == text
