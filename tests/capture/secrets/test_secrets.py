"""What a run hides in values: by name, by shape, by what a person says; and nothing else."""

from __future__ import annotations

import ast
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from marked import marked

from seamark.capture.secrets.masking import MASK
from seamark.capture.secrets.secrets import BY_NAME, BY_VALUE, Secrets, user_rules
from seamark.values import Atom, Escaped, parameters

SECRET = "s3cr3t Val"


def recorded(value: object, secrets: Secrets | None = None, path: str = "p") -> object:
    """Return what is recorded of a value, nested as it is given."""
    atoms = (secrets or Secrets()).atoms(parameters(value, path))
    found: dict[str, object] = {}
    for at, atom in atoms.items():
        *above, last = at.split("/")[1:] or [""]
        place = found
        for part in above:
            place = place.setdefault(part, {})
        place[last] = json.loads(atom.value) if atom.type == "json" else atom.value
    return found.get("", found)


@pytest.mark.parametrize(
    "name",
    [
        *("token", "api_key", "apiKey", "API-KEY", "apikey", "WANDB_API_KEY", "hf_token"),
        *("authToken", "logger.init_args.api_token", "password", "db_password", "PGPASSWORD"),
        *("passwd", "password2", "password_hash", "passphrase", "secret", "client_secret"),
        *("secret_access_key", "secretKey", "private_key", "encryption_key", "credentials"),
        *("creds", "jwt", "cookie", "authorization", "auth", "refresh_token", "access_tokens"),
        *("slack_webhook_url", "otp", "pswd", "db_pw", "bearer"),
    ],
)
def test_string_is_hidden_for_its_name(name):
    assert recorded({"db": {name: SECRET}}) == {"db": {name: BY_NAME}}
    assert recorded([{name: SECRET, "n": 1}]) == [{name: BY_NAME, "n": 1}]
    assert Secrets().text(f"x {name}=Xq9-planted7") == f"x {name}={MASK}"


@pytest.mark.parametrize(
    "name",
    [
        *("tokenizer", "num_tokens", "max_tokens", "token_dim", "key_dim", "keys", "key"),
        *("monitor_key", "sort_key", "pad_token", "image_token", "placeholder_token", "passes"),
        *("bypass", "author", "secretary", "password_policy", "token_type", "monkey"),
        *("signature", "credential_provider"),
    ],
)
def test_other_names_hide_nothing(name):
    value = {"p": {name: SECRET, "sub": [{name: SECRET}]}}
    assert recorded(value) == value


@pytest.mark.parametrize(
    "value",
    [1, 0.5, True, None, [1, 2, 3], [[0.1], [0.2]], {}, "", "true", "None", "<pad>", "[CLS]"],
    ids=repr,
)
def test_numbers_switches_and_markers_are_not_hidden_for_their_name(value):
    given = {"token": value, "password": value}
    atoms = parameters(given, "p")
    assert Secrets().atoms(atoms) == atoms


WITHIN = marked(
    "postgres://«u:pw»@h:5432/db",
    "https://h/f?sv=2022&sig=«ab%2Bc%3D»&se=1",
    "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=«0123456789abcdef»",
    "https://storage.googleapis.com/b/o?X-Goog-Signature=«0a1b2c»&x=1",
    "https://hooks.slack.com/«services/T0/B0/xyz»",
    "https://discord.com/api/webhooks/«1/abc»",
    "https://x.webhook.office.com/«webhookb2/1@2/3»",
    "curl --token «abc» -v https://h",
    "lr: 0.1\n  api_key: «abc»\nn: 1",
    "Server=h;AccountKey=«abc==»;Timeout=3",
    "https://h/x?api_key=«Q»&split=train#a=1",
    "model(token=«word2vec»,dim=5)",
    "x.py --api-key=«K» --lr=0.1",
    "mysql --password '«a b»' -v",
    "Command '['x', '--token=«K»']' failed",
    "run -api_key=«K»",
    "[db]\npassword = «X»\nuser = bob",
    'api_key = "«X Y»" # old',
    "password: «two words pw»\nuser: bob bee",
    "db_password = «two words pw»",
    "{password: '«X»', apiKey: \"«Y»\", n: 1, pad_token: '<pad>'}",
    "PGPASSWORD=«abc» psql -h h",
    "password: «a b», user: bob",
    "password : «X»",
    "db: {password: «X», user: bob}",
    "curl -H 'X-Api-Key: «K»' https://h",
    "curl -H 'Authorization: Basic «Ym9i»' x",
    '{"token": "«a\\"b»", "x": 1}',
    "Namespace(lr=0.1, api_key='«abc»')",
    "{'Authorization': 'Bearer «abcdef»', 'x': 1}",
    "Command '['mysql', '--password', '«x y»']' failed",
    "password='«never closed»",
    *(
        f"sent {scheme} «0a1b2c3d4e5f60718293a4b5c6d7e8f9»"
        for scheme in ("Basic", "bearer", "Digest")
    ),
    *(f"a {name}=«Zk3vQ9xT1bLm8RwY5cHn2JpD7sFg4KuA»" for name in ("pat", "sig")),
)
KEPT = [
    "Classify each token: positive or negative.",
    "You are the bearer of good news. Cookie: a sweet snack.",
    "The password is the first thing that the user says: be kind.",
    *("glow-tts-v2-ljspeech", "sk-learn-v1-baseline", "sk_test_accuracy", "hf_resnet50_large"),
    *("pypi-mirror-internal-server", "ResNet50-Adam-lr0-seed1-CIFAR10-baseline-run-2", ""),
    "https://host/x?page=2&signal=1#sig=a",
    "git@github.com:org/repo.git",
    "d6b1bd4f9e5dd3e6ddd8bbd2a06a2b7a3c4d5e6f",
    "key=value, cache_key=a, n_tokens=5",
    "s3://bucket/tokens/train.bin",
    "lambda x: x['token']",
    "--max-tokens=512 --pad-token='<pad>'",
    "password: ${oc.env:DB}\ntokens = 5",
    "if token == x: pass\nn_tokens = a",
    "Missing key: 'encoder.weight'",
    "Unexpected key(s) in state_dict: 'a'",
    "KeyError: 'token'",
    *("ASIANFACESDATASET", "AIDASOCIALMEDIA2024", "hf_resnetfiftyimagenetonek", "ghp_global"),
    *("ghu_manifold", "xoxo-experiment", "sk-experimentwithlonglongname"),
    *(
        "sk-lf-learning-rate-decay",
        "r8_resnetfiftyimagenet1k",
        "SG.stochastic-gradient.with-momentum",
    ),
    *("/data/sk-abcdefghijklmnopqrstuvwxyz/x", "token resnet50_imagenet1k_v2", "fw_forward_pass_2"),
    *("key-value-cache", "sess-2024-baseline", "xai-explain-gradcam-resnet50", "pplx-eval-v2"),
    *("dp.st.mean", 'lang_token="en_XX"', "task_token=summarize", "user_key=user_id"),
    *("session_key=s-12", "project_key='vision'", 'instance_token="sks dog"', "lsv2_pt"),
    *("INFO tokens: 512, token: 17/100 loss: 0.3", "tokens: tensor([[  101,  2023]])"),
    *("token 17/100, secret sauce, Password: \n", "Password: \nnext line\n"),
    "INFO token = 3.5e-3, token: 100%, token: 12.5ms, token: 1,024",
    "num_tokens=1024 tokens/s: 12.5 pad_token: <pad> eos token: </s> pad token: [PAD]",
    "INFO token: missing, Generated token: Hello, credentials: none",
    "INFO def login(password: str, token: Optional[str] = None):",
    "val_token_accuracy=0.91 sort key: name key: value pass: 3",
    "Tokenizer(name='x', pad_token='<pad>', unk_token='<unk>')",
    "| token | count | key |\n|---|---|---|\n| the | 512 | 7 |\n",
    "tokens: ['the', 'cat', 'sat'] tensor([[101]])",
]


@pytest.mark.parametrize(("given", "kept"), [*WITHIN, *((text, text) for text in KEPT)])
def test_secrets_within_a_string_are_hidden_and_nothing_else(given, kept):
    """In values, points, arguments and messages: prompts, addresses and names of models stay."""
    secrets = Secrets()
    assert recorded({"x": given, "y": [given]}) == {"x": kept, "y": [kept]}
    assert secrets.arguments(["--x", given]) == ["--x", kept]
    assert (secrets.text(given), secrets.text(kept)) == (kept, kept)
    assert (secrets.message(given), secrets.message(kept)) == (kept, kept)
    if "://" in given or given == kept:
        assert secrets.message(f"no answer from {given} !") == f"no answer from {kept} !"


@pytest.mark.parametrize(
    ("line", "kept"),
    marked(
        'get("https://h/x?api_key=«CODE»&page=1")',
        'run("mysql --password «CODE» -v")',
        "h = {'a': 'X-Api-Key: «CODE»'}",
        'get(f"https://h?api_key={key}", token=token)',
        'log("token=%s", token, key=lambda x: x)',
        "raise KeyError('token')  # don't",
    ),
)
def test_secrets_in_source_lines_of_a_traceback_are_hidden(line, kept):
    before = '  File "a.py", line 1, in f\n    '
    assert Secrets().message(before + line) == before + kept


VOCABULARY = ["lang", "task", "src", "tgt", "object", "time", "answer", "register", "instance"]
PLAIN = [
    *("-patience", "-precision", "-p", "vision", "--key", "image", "--user-key=user_id"),
    *("--session-key", "train", "--signature", "serving_default"),
    *(word for each in VOCABULARY for word in (f"--{each}-token", "en_XX")),
]


def test_words_in_arguments_that_name_columns_or_languages_are_kept():
    assert Secrets().arguments(PLAIN) == PLAIN


@pytest.mark.parametrize(
    "value",
    [
        {"secrets": {"openai": "«S1»"}},
        {"secrets": {"a": {"b": ["«S1»", 2]}}},
        {"tokens": {"access_tokens": ["«a»", 1, ["«b»"]]}},
        {"tokens": {"hf": "«S1»", "n": 1}},
        {"api_keys": {"openai": "«S1»"}},
        {"credentials": {"username": "u", "host": "h", "value": "«V»"}},
        {"name": "DB_PASSWORD", "value": "«V»"},
        {"key": "DB_PASSWORD", "value": "«V»"},
        {"name": "LR", "value": "V"},
        {"username": "me", "key": "«" + "0a" * 16 + "»"},
        {"special_tokens": {"pad": "<pad>", "hi": "hi"}},
        {"tokens": {"pad": "<pad>", "eos": "end", "path": "a.bin", "switch": "on"}},
        {"tokens": ["hello", "world"], "num_tokens": {"train": "many"}},
        {"tokens": 5, "secrets": {"n": 1, "on": True}},
        {"token": "${oc.env:TOKEN}", "password": "{{ secrets.DB }}"},
        {f"{each}_token": "en_XX" for each in VOCABULARY},
    ],
)
def test_values_below_or_beside_a_secret_name_are_hidden(value):
    """Those in «»; numbers, users and places stay."""
    text = repr(value)
    given, kept = re.sub("[«»]", "", text), re.sub("«.*?»", BY_NAME, text)
    assert recorded(ast.literal_eval(given)) == ast.literal_eval(kept)
    assert recorded([ast.literal_eval(given)]) == [ast.literal_eval(kept)]


def test_value_assigned_below_a_secret_name_or_listed_behind_an_option_is_hidden():
    atoms = Secrets().atoms({"p/api_keys/openai": Atom("string", "S1")})
    assert atoms["p/api_keys/openai"].value == BY_NAME
    assert recorded({"argv": ["x.py", "--password", "S1"]}) == {
        "argv": ["x.py", "--password", MASK]
    }


HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
LETTERS = "Ab3dEf6hIj9lMn2pQr5tUv8xYz1BcD4fGh7jKl0nOp3rSt6vWx9zAb2dEf5hIj8lMn1p"
REAL = [
    *("github_pat_11ABCDEFG0abcdefghijkl_ABCDEFGH", "glpat-abcDEF1234567890abcd"),
    *("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "AIzaSyA-1234567890abcdefghijklmnopqrstu"),
    *("npm_abcdefghijklmnopqrstuvwxyz0123456789", "pypi-AgEIcHlwaS5vcmcCJDEyMzQ1Njc4"),
    *("rk_test_4eC39HqLyjWDarjtT1zdp7dc", "wandb_v2_" + "aB3" * 12),
    *("ya29.a0AfH6SMBx-abcdefghijk", "123456789:AAFabcdefghijklmnopqrstuvwxyz012345"),
    "eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYXBwLm5lcHR1bmUuYWkifQ==",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----",
    "---- BEGIN SSH2 PRIVATE KEY ----\nb3BlbnNzaC1rZXk\n---- END SSH2 PRIVATE KEY ----",
    "PuTTY-User-Key-File-3: ssh-rsa\nb3BlbnNzaC1rZXk\nPrivate-MAC: 0a1b",
    *(f"gh{kind}_" + LETTERS[:36] for kind in "pousr"),
    *("AKIAIOSFODNN7EXAMPLE", "ASIAY34FZKBOKMUTVV7A", "hf_" + LETTERS[:34]),
    *("hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH", "sk-" + HEX, "sk-" + LETTERS[:48]),
    *("sk-ant-api03-" + LETTERS, "sk-proj-" + LETTERS),
    "sk-lf-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
    *("r8_" + LETTERS[:37], "xoxb-123456789012-1234567890123-" + LETTERS[:24]),
    *("SG." + LETTERS[:22] + "." + LETTERS[:43], "dckr_pat_" + LETTERS[:27]),
    *(f"lsv2_pt_{HEX}_0a1b2c3d4e", "pcsk_" + LETTERS[:6] + "_" + LETTERS[:60], "shpat_" + HEX),
    *("pplx-" + LETTERS[:48], "xai-" + LETTERS + LETTERS[:16], "tvly-" + LETTERS[:32]),
    *("tvly-dev-" + LETTERS[:32], "sess-" + LETTERS[:40], "fw_" + LETTERS[:24]),
    *("sq0csp-" + LETTERS[:43], "dp.st.dev." + LETTERS[:43], "dp.st." + LETTERS[:43], "key-" + HEX),
    "seamark_" + LETTERS[:40] + "_-7",
    *("gsk_" + LETTERS[:52], "whsec_" + LETTERS[:32], "xapp-1-" + LETTERS[:20]),
    *(f"gl{kind}-" + LETTERS[:20] for kind in ("dt", "rt", "ptt", "ft", "imt", "agent", "oas")),
    *(f"gl{kind}-" + LETTERS[:20] for kind in ("soat", "cbt", "ffct")),
    *(f"{kind}ZR6TESTKEYID0001"[:20] for kind in ("AROA", "AIDA", "AGPA", "ANPA")),
    *(f"{kind}_v1_{HEX}" for kind in ("dop", "doo", "dor")),
    *("api_org_" + LETTERS[:34], "GOCSPX-" + LETTERS[:24], "dapi" + HEX, "glsa_" + LETTERS[:32]),
    *("nvapi-" + LETTERS[:40], "wandb_v1_" + LETTERS[:40], "lin_api_" + LETTERS[:40]),
    *("tskey-auth-" + LETTERS[:20], "hvs." + LETTERS[:24], "ATATT3" + LETTERS[:40]),
    *("AGE-SECRET-KEY-1" + HEX.upper(), "lsv2_sk_" + HEX, "sq0atp-" + LETTERS[:22]),
    *(f"shp{kind}_{HEX}" for kind in ("ca", "pa", "ss")),
    *(f"dp.{kind}.{LETTERS[:43]}" for kind in ("pt", "ct", "sa", "scim", "audit")),
]


@pytest.mark.parametrize("secret", REAL)
def test_secret_is_hidden_for_its_shape_wherever_it_stands(secret):
    assert recorded({"x": secret}) == {"x": BY_VALUE}
    assert recorded({"x": f"see {secret}, there"}) == {"x": f"see {MASK}, there"}
    assert recorded([[secret, 1], {"a": secret}]) == [[BY_VALUE, 1], {"a": BY_VALUE}]
    assert Secrets().message(f"bad {secret}: no") == f"bad {MASK}: no"
    assert secret not in Secrets().message(f"cannot open /data/{secret}/x [{secret}]")
    assert Secrets().arguments(["--x", secret]) == ["--x", MASK]


@pytest.mark.parametrize("name", ["user_key", "project_key", "session_key"])
def test_keys_that_may_name_columns_are_hidden_only_if_they_look_random(name):
    given = {name: "s-12"}
    assert recorded(given) == given
    assert recorded({name: "aB3" * 8}) == {name: BY_NAME}


def test_token_of_kaggle_is_hidden_beside_its_user():
    text = json.dumps({"username": "me", "key": HEX})
    assert Secrets().text(text) == Secrets().message(text) == text.replace(HEX, MASK)
    assert recorded({"key": HEX, "n": 1}) == {"key": HEX, "n": 1}


def test_values_of_secret_variables_are_hidden_however_they_are_quoted(monkeypatch):
    value = "p@ss/w\\ord \"ü'1"
    monkeypatch.setenv("SOME_PASSWORD", value)
    written = [value, repr(value), json.dumps(value), quote(value), quote(value, safe="")]
    for text in (*written, quote_plus(value), str({"a": [value]})):
        for hidden in (Secrets().text(f"<{text}>"), Secrets().message(f"<{text}>")):
            assert MASK in hidden
            assert "ord" not in hidden
    monkeypatch.setenv("SOME_PASSWORD", "plain words")
    assert recorded({"x": "plain words", "y": "<plain words>"}) == {"x": BY_VALUE, "y": f"<{MASK}>"}
    monkeypatch.setenv("OTHER_PASSWORD", "with \udc80 bytes 7")
    assert Secrets().text("with \udc80 bytes 7") == BY_VALUE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *(("postgres", "postgresql://localhost/x as postgres"), ("ollama", "ollama/llama3")),
        *(("not-needed", "not-needed here"), ("EMPTY", "EMPTY")),
        *(("baseline", "the baseline"), ("Baseline", "Baselines")),
    ],
)
def test_default_and_filler_values_of_secret_variables_are_no_secrets(monkeypatch, value, text):
    monkeypatch.setenv("SOME_PASSWORD", value)
    assert recorded({"x": text}) == {"x": text}
    assert Secrets().message(text) == text
    assert Secrets().arguments([text]) == [text]


def test_values_of_variables_count_as_whole_words(monkeypatch):
    monkeypatch.setenv("SOME_PASSWORD", "correcthorsebattery")
    monkeypatch.setenv("SITE", "northern")
    assert Secrets().text("a correcthorsebattery_1 northern") == "a ***_1 northern"
    assert Secrets(rules=user_rules(["site"])).text("a northern") == "a ***"  # a person named it


def test_values_that_are_kept_keep_type_and_identity():
    atoms = parameters({"lr": 0.1, "n": [1, 2], "s": "x", "t": "a\x00b"}, "p")
    kept = Secrets().atoms(atoms)
    assert all(kept[path] is atoms[path] for path in atoms)
    escaped = Secrets().atoms({"p": Atom("string", Escaped("\\x00 ghp_abcdef123456"))})["p"].value
    assert (escaped, type(escaped)) == ("\\x00 ***", Escaped)


def test_hiding_twice_changes_nothing():
    given = {"token": SECRET, "x": REAL[0], "y": [REAL[1]], "u": "https://u:p@h/x?sig=1"}
    once = Secrets().atoms(parameters(given, "p"))
    assert Secrets().atoms(once) == once


def test_named_secrets_and_expressions_are_hidden_too():
    secrets = Secrets(rules=user_rules(["patient_id", r"acme-[0-9a-f]{8}", re.compile("ZZ+")]))
    given = {"patientId": "Bob", "patient_ids": "kept", "x": "at acme-0123abcd", "y": "aZZZb"}
    assert recorded(given, secrets) == {
        "patientId": BY_NAME,
        "patient_ids": "kept",
        "x": f"at {MASK}",
        "y": f"a{MASK}b",
    }
    arguments = ["--patient-id", "Bob", "data.patient_id=Bob", "acme-0123abcd"]
    kept = ["--patient-id", MASK, f"data.patient_id={MASK}", MASK]
    assert secrets.arguments(arguments) == kept
    assert secrets.message("patient_id='Bob' acme-0123abcd") == f"patient_id='{MASK}' {MASK}"


def test_only_the_given_token_is_hidden_when_masking_is_off(monkeypatch):
    monkeypatch.setenv("SOME_PASSWORD", "plain words")
    secrets = Secrets(masked=False, known=("given-token",))
    given = {"token": SECRET, "x": REAL[0], "y": "plain words", "z": ["--password", "x"]}
    assert recorded(given, secrets) == given
    assert recorded({"x": "a given-token"}, secrets) == {"x": f"a {MASK}"}
    assert secrets.message("password='x' given-token") == f"password='x' {MASK}"
    assert secrets.arguments(["--password", "given-token"]) == ["--password", MASK]
    of_letters = Secrets(masked=False, known=("geheim",))
    assert of_letters.message("%20geheim, \\ngeheim") == f"%20{MASK}, \\n{MASK}"


@pytest.mark.parametrize(("entries", "error"), [(["a("], ValueError), ([3], TypeError)])
def test_entry_that_is_no_name_and_no_expression_is_refused(entries, error):
    with pytest.raises(error, match="expected names and regular expressions, got "):
        user_rules(entries)
