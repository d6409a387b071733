"""Calls the operations of Neptune's client without that client."""

from __future__ import annotations

import base64
import json
from urllib.parse import urlencode

import urllib3

from seamark.neptune.server.answers import BY_NAME


class Client:
    """Calls operations by name, as their documents describe them."""

    def __init__(self, url, token):
        self.url, self._pool = url, urllib3.PoolManager(retries=False)
        given = json.dumps({"api_address": url, "api_key": token}).encode()
        self.api_token = base64.b64encode(given).decode()
        self.headers = {"X-Neptune-Api-Token": self.api_token}
        if token:
            access = self.ok("exchangeApiToken")["accessToken"]
            self.headers = {"Authorization": f"Bearer {access}"}

    def call(self, name, body=None, further=None, **query):
        """Return status and answer of an operation; further headers may be sent along."""
        operation, headers = BY_NAME[name], {**self.headers, **(further or {})}
        if body is not None and not isinstance(body, bytes):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        found = self._pool.request(
            operation.method,
            f"{self.url}{operation.path}?{urlencode(query, doseq=True)}",
            body=body,
            headers=headers,
            redirect=False,
            timeout=60,
        )
        try:
            return found.status, json.loads(found.data)
        except ValueError:
            return found.status, found.data

    def ok(self, name, body=None, **query):
        status, found = self.call(name, body, **query)
        assert status == 200, (name, status, found)
        return found

    def new_run(self, project, **more):
        given = {"projectIdentifier": project, "type": "run", **more}
        return self.ok("createExperiment", given)

    def new_model(self, project, key):
        return self.new_run(project, type="model", key=key)

    def new_version(self, project, model):
        return self.new_run(project, type="modelVersion", parentId=model["id"])

    def do(self, run, *operations):
        found = self.ok("executeOperations", list(operations), experimentId=run["id"])
        return [each["errorDescription"] for each in found]

    def shown(self, run):
        found = self.ok("getExperimentAttributes", experimentId=run["id"])["attributes"]
        return {each["name"]: each[f"{each['type']}Properties"] for each in found}
